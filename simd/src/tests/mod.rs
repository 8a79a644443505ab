//! Tests of every table this CPU can run against the scalar oracle and against naive code.

mod bits;
mod dispatch;
mod dots;
mod topk;

/// A small generator of test data (xorshift), for sweeps too large for a property test.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// In -1..1.
    fn value(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    fn values(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.value()).collect()
    }
}

/// Whether bit `i` is set.
fn bit(words: &[u64], i: usize) -> bool {
    (words[i / 64] >> (i % 64)) & 1 == 1
}

/// A bitset of these bits; those past the end of the last word are zero.
fn bitset(bits: impl IntoIterator<Item = bool>) -> Vec<u64> {
    let mut words = Vec::new();
    for (i, set) in bits.into_iter().enumerate() {
        if i % 64 == 0 {
            words.push(0);
        }
        if set {
            words[i / 64] |= 1 << (i % 64);
        }
    }
    words
}
