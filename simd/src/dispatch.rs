//! Chooses a table of kernels, once per process.
//!
//! Invariants: a table is returned only after its CPU features were detected; [`active`] answers
//! the same for the life of the process, whatever happens to the environment afterwards; a request
//! that cannot be met is an error and never a silent fallback, because the setting exists to make
//! runs comparable.

use std::sync::OnceLock;

use crate::{Kernels, SimdError, portable, scalar};

/// The environment variable that overrides the choice made by [`active`].
pub const ENV_VAR: &str = "MNEMOLITH_SIMD";

/// Every name a table has in any build, so that "misspelt" and "not on this CPU" can be told apart.
const KNOWN: [&str; 4] = ["scalar", "portable", "avx2", "avx512"];

/// The table this process uses: the fastest this CPU can run (`avx512`, then `avx2`, then
/// `portable`), or the one named by `MNEMOLITH_SIMD`. Chosen at the first call and cached.
///
/// # Errors
///
/// When `MNEMOLITH_SIMD` holds an unknown name, or one this CPU cannot run; the empty string is an
/// unknown name. The error is cached as well.
pub fn active() -> Result<&'static Kernels, SimdError> {
    static CHOSEN: OnceLock<Result<&'static Kernels, SimdError>> = OnceLock::new();
    CHOSEN
        .get_or_init(|| {
            let requested = std::env::var_os(ENV_VAR);
            let requested = requested.as_ref().map(|value| value.to_string_lossy());
            choose(requested.as_deref(), &available())
        })
        .clone()
}

/// Every table this CPU can run, slowest first: `scalar`, `portable`, then `avx2` and `avx512`
/// where they were detected.
pub fn available() -> Vec<&'static Kernels> {
    #[allow(unused_mut, reason = "only some architectures add to it")]
    let mut tables = vec![&scalar::TABLE, &portable::TABLE];
    #[cfg(target_arch = "x86_64")]
    tables.extend(crate::x86::detected());
    tables
}

/// The table of this name.
///
/// # Errors
///
/// When the name is unknown, or this CPU cannot run the table.
pub fn by_name(name: &str) -> Result<&'static Kernels, SimdError> {
    choose(Some(name), &available())
}

/// The decision of [`active`] without the environment and the CPU: `tables` holds what the CPU can
/// run, slowest first, and `requested` the override.
pub(crate) fn choose(requested: Option<&str>, tables: &[&'static Kernels]) -> Result<&'static Kernels, SimdError> {
    let Some(name) = requested else {
        return Ok(tables.last().copied().unwrap_or(&scalar::TABLE));
    };
    if let Some(table) = tables.iter().find(|table| table.name() == name) {
        return Ok(table);
    }
    let requested = name.to_owned();
    let supported = tables.iter().map(|table| table.name()).collect();
    Err(if KNOWN.contains(&name) { SimdError::Unsupported { requested, supported } } else { SimdError::Unknown { requested, supported } })
}
