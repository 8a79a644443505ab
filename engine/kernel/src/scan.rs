//! stub until merge
use mnemolith_simd::Kernels;
pub(crate) fn nearest_rows<'a>(
    _k: &Kernels,
    query: &[f32],
    stride: usize,
    runs: impl Iterator<Item = (u64, &'a [f32])>,
    n: usize,
) -> Vec<(u64, f64)> {
    let mut all: Vec<(u64, f64)> = runs
        .flat_map(|(first, rows)| {
            rows.chunks(stride)
                .zip(first..)
                .map(|(r, s)| (s, r.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()))
                .collect::<Vec<_>>()
        })
        .collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all.truncate(n);
    all
}
