//! Percentiles, medians and spreads.

/// The smallest value that at least `percent` of all values do not exceed (nearest rank); `None`
/// without values. Sorts them.
pub(super) fn percentile(values: &mut [f32], percent: f64) -> Option<f64> {
    values.sort_unstable_by(f32::total_cmp);
    let rank = (values.len() as f64 * percent / 100.0).ceil() as usize;
    values.get(rank.saturating_sub(1)).map(|value| f64::from(*value))
}

/// The spread of repeated measurements of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    /// The minimum.
    pub(super) min: f64,
    /// The median: the middle value, or the mean of the two middle values.
    pub(super) median: f64,
    /// The maximum.
    pub(super) max: f64,
}

impl Spread {
    /// The spread of these values; `None` without any.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        Some(Self { min, median, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut values: Vec<f32> = (1..=100_u8).rev().map(f32::from).collect();
        assert_eq!(percentile(&mut values, 50.0), Some(50.0));
        assert_eq!(percentile(&mut values, 99.0), Some(99.0));
        assert_eq!(percentile(&mut values, 100.0), Some(100.0));
        assert_eq!(percentile(&mut [7.0], 1.0), Some(7.0));
        assert_eq!(percentile(&mut [3.0, 1.0, 2.0], 50.0), Some(2.0));
    }

    #[test]
    fn without_values_there_is_no_percentile_and_no_spread() {
        assert_eq!(percentile(&mut [], 50.0), None);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn a_spread_knows_both_ends_and_the_middle() {
        assert_eq!(Spread::of([3.0, 1.0, 9.0]), Some(Spread { min: 1.0, median: 3.0, max: 9.0 }));
        assert_eq!(Spread::of([4.0, 2.0]), Some(Spread { min: 2.0, median: 3.0, max: 4.0 }));
        assert_eq!(Spread::of([5.0]), Some(Spread { min: 5.0, median: 5.0, max: 5.0 }));
    }
}
