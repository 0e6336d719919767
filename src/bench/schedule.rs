//! In which order things run: every round has each variant once, and the copy.
//!
//! Machines drift, and what runs after a long import finds a busier disk. So no variant may always have the same place:
//! `interleaved` turns the list by one place from round to round, `random` shuffles it anew for each.

use crate::generate::Noise;

/// How a round is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As given, turned by one place from round to round.
    #[default]
    Interleaved,
    /// Shuffled anew for each round.
    Random,
}

impl Order {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interleaved => "interleaved",
            Self::Random => "random",
        }
    }
}

/// Returns the names of a round in their order.
pub fn round(names: &[String], order: Order, seed: u64, round: u32) -> Vec<String> {
    let mut names = names.to_vec();
    match order {
        Order::Interleaved => {
            let turn = round as usize % names.len();
            names.rotate_left(turn);
        }
        Order::Random => {
            let mut noise = Noise::new(seed, u64::from(round));
            for at in (1..names.len()).rev() {
                names.swap(at, noise.below(at as u64 + 1) as usize);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["cp", "a", "b", "c"].map(str::to_owned).to_vec()
    }

    #[test]
    fn interleaved_gives_everything_every_place() {
        assert_eq!(round(&names(), Order::Interleaved, 1, 0), ["cp", "a", "b", "c"]);
        assert_eq!(round(&names(), Order::Interleaved, 1, 1), ["a", "b", "c", "cp"]);
        assert_eq!(round(&names(), Order::Interleaved, 1, 4), ["cp", "a", "b", "c"]);
    }

    #[test]
    fn random_is_the_same_again_for_the_same_seed_and_has_all() {
        let orders: Vec<_> = (0..20).map(|number| round(&names(), Order::Random, 7, number)).collect();
        for (number, order) in orders.iter().enumerate() {
            let mut sorted = order.clone();
            sorted.sort();
            assert_eq!(sorted, ["a", "b", "c", "cp"]);
            assert_eq!(&round(&names(), Order::Random, 7, number as u32), order);
        }
        assert!(orders.iter().any(|order| order != &orders[0]));
    }
}
