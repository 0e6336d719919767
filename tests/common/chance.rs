//! Random choices that can be repeated, and the number of rounds of random and long tests.

pub fn is_long() -> bool {
    std::env::var_os("BEDLOAD_LONG_TESTS").is_some_and(|value| value == "1")
}

/// Number of rounds of a random test: `few`, or `many` in the long tests.
pub fn rounds(few: usize, many: usize) -> usize {
    if is_long() { many } else { few }
}

/// Returns all of `all` in the long tests, otherwise the one whose turn it is in round `nth`.
pub fn in_turn<T>(all: &[T], nth: usize) -> &[T] {
    let one = nth % all.len().max(1);
    if is_long() { all } else { all.get(one..=one).unwrap_or_default() }
}

/// Numbers that differ from run to run. The seed is printed so that a failure can be repeated.
pub struct Chance(pub u64);

impl Chance {
    pub fn new() -> Self {
        Self::of(Self::seed())
    }

    pub fn seed() -> u64 {
        let given = std::env::var("BEDLOAD_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_millis() as u64 % 1_000_000;
        let seed = given.unwrap_or_else(now);
        eprintln!("BEDLOAD_TEST_SEED={seed} makes the same choices again");
        seed
    }

    /// A generator with a fixed seed.
    pub fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.word() >> 8) % limit.max(1)
    }
}
