//! The order of the runs: every round has the copy and each variant once.
//!
//! Machines drift, and a run after a long import finds a busier disk. So no variant may always have the same place.

use crate::generate::Noise;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Order {
    /// As given, rotated by one place from round to round.
    #[default]
    Interleaved,
    /// Shuffled for each round.
    Random,
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Self::Interleaved => "interleaved",
            Self::Random => "random",
        }
    }
}

pub fn order_round(names: &[String], order: Order, seed: u64, round: u32) -> Vec<String> {
    let mut names = names.to_vec();
    match order {
        Order::Interleaved => {
            let places = round as usize % names.len();
            names.rotate_left(places);
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
    fn interleaved_rotates_the_names() {
        for (round, expected) in [(0, ["cp", "a", "b", "c"]), (1, ["a", "b", "c", "cp"]), (4, ["cp", "a", "b", "c"])] {
            assert_eq!(order_round(&names(), Order::Interleaved, 1, round), expected);
        }
    }

    #[test]
    fn random_order_is_reproducible() {
        let orders: Vec<_> = (0..20).map(|number| order_round(&names(), Order::Random, 7, number)).collect();
        for (number, order) in orders.iter().enumerate() {
            let mut sorted = order.clone();
            sorted.sort();
            assert_eq!(sorted, ["a", "b", "c", "cp"]);
            assert_eq!(&order_round(&names(), Order::Random, 7, number as u32), order);
        }
        assert!(orders.iter().any(|order| order != &orders[0]));
    }
}
