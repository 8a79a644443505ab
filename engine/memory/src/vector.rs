//! Vectors at the border: checked, and brought to length one.
//!
//! Purpose: behind this module every vector is finite, of the right dimension and of unit length.
//!
//! Invariants: all sums are in `f64`, in which no square of an `f32` overflows or vanishes.

use crate::error::{Error, Result};
use crate::types::Limits;

/// Checks a vector against the namespace's dimension, or, where none is fixed yet, against the
/// dimensions there may be.
///
/// # Errors
/// [`Error::WrongDimension`], [`Error::OutOfRange`] for `dimension`, [`Error::NotFinite`],
/// [`Error::ZeroVector`].
pub(crate) fn check(vector: &[f32], dimension: Option<usize>) -> Result<()> {
    match dimension {
        Some(expected) if vector.len() != expected => {
            return Err(Error::WrongDimension { expected, found: vector.len() });
        }
        Some(_) => {}
        None => check_dimension(vector.len())?,
    }
    if let Some((index, value)) = vector.iter().enumerate().find(|(_, x)| !x.is_finite()) {
        return Err(Error::NotFinite { index, value: *value });
    }
    if vector.iter().all(|x| *x == 0.0) {
        return Err(Error::ZeroVector);
    }
    Ok(())
}

/// Checks that a namespace can have this dimension.
///
/// # Errors
/// [`Error::OutOfRange`].
pub(crate) fn check_dimension(dimension: usize) -> Result<()> {
    if (1..=Limits::DIMENSION).contains(&dimension) {
        return Ok(());
    }
    Err(Error::OutOfRange { field: "dimension".to_owned(), value: dimension as f64, min: 1.0, max: Limits::DIMENSION as f64 })
}

/// A checked vector at length one, and its length before: saturated at `f32::MAX`, and at least
/// the smallest positive `f32`.
pub(crate) fn normalise(vector: &[f32]) -> (Vec<f32>, f32) {
    let norm = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    let unit = vector.iter().map(|x| (f64::from(*x) / norm) as f32).collect();
    (unit, (norm as f32).clamp(f32::from_bits(1), f32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_flaw_has_its_own_error() {
        assert_eq!(check(&[1.0, 2.0], Some(2)), Ok(()));
        assert_eq!(check(&[1.0], Some(2)), Err(Error::WrongDimension { expected: 2, found: 1 }));
        assert!(matches!(check(&[1.0, f32::NAN], None), Err(Error::NotFinite { index: 1, .. })));
        assert_eq!(check(&[f32::INFINITY], None), Err(Error::NotFinite { index: 0, value: f32::INFINITY }));
        assert_eq!(check(&[0.0, -0.0], None), Err(Error::ZeroVector));
        assert!(matches!(check(&[], None), Err(Error::OutOfRange { .. })));
        assert!(matches!(check(&vec![1.0; 65_536], None), Err(Error::OutOfRange { .. })));
        assert_eq!(check(&vec![1.0; 65_535], None), Ok(()));
    }

    #[test]
    fn the_smallest_and_the_greatest_vectors_have_a_direction() {
        let tiny = f32::from_bits(1);
        assert_eq!(normalise(&[tiny, 0.0]), (vec![1.0, 0.0], tiny));
        let (unit, norm) = normalise(&[f32::MAX, f32::MAX]);
        assert!((unit[0] - 0.5_f32.sqrt()).abs() < 1e-7 && norm == f32::MAX);
        assert_eq!(normalise(&[3.0, 4.0]), (vec![0.6, 0.8], 5.0));
    }

    proptest! {
        #[test]
        fn every_checked_vector_becomes_a_unit_vector(
            vector in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL, 1..64)
        ) {
            prop_assert_eq!(check(&vector, None), Ok(()));
            let (unit, norm) = normalise(&vector);
            let length: f64 = unit.iter().map(|x| f64::from(*x).powi(2)).sum();
            prop_assert!((length - 1.0).abs() < 1e-5 && norm.is_finite() && norm > 0.0);
        }
    }
}
