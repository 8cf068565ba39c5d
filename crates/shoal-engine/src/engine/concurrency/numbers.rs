//! The numbers that a search tries: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 … A step is at most half as much again, so that no
//! number in use is more than 1.5 times one that would do.

/// The next larger number, by a tenth at least: what 32 bring more than 31 is not seen.
pub(super) fn up(n: usize) -> usize {
    let n = n + n / 11;
    let power = n.max(1).next_power_of_two();
    match power / 4 * 3 {
        between if between > n => between,
        _ if power > n => power,
        _ if n == 1 => 2,
        _ => n / 2 * 3,
    }
}

/// The next smaller number; 1 has none.
pub(super) fn down(n: usize) -> usize {
    if n <= 2 {
        return 1;
    }
    let power = n.next_power_of_two() / 2;
    match power / 2 * 3 {
        between if between < n => between,
        _ => power,
    }
}

/// The number nearest the middle of two others, in ratio, that is neither.
pub(super) fn between(low: usize, high: usize) -> Option<usize> {
    let middle = ((low * high) as f64).sqrt();
    let ratio = |n: usize| (n as f64 / middle).ln().abs();
    std::iter::successors(Some(up(low)), |&n| Some(up(n)))
        .take_while(|&n| n < high)
        .min_by(|&a, &b| ratio(a).total_cmp(&ratio(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_at_most_half_as_much_again() {
        let steps: Vec<usize> = std::iter::successors(Some(1), |&n| Some(up(n))).take(12).collect();
        assert_eq!(steps, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]);
        assert!(steps.windows(2).all(|pair| down(pair[1]) == pair[0]));
        assert_eq!((up(5), up(7), down(7), down(5), down(1), up(10), down(10)), (6, 8, 6, 4, 1, 12, 8));
        assert_eq!((between(16, 32), between(1, 2), between(8, 64), between(8, 12)), (Some(24), None, Some(24), None));
    }
}
