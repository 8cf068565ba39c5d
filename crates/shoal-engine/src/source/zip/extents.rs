//! Checks that no two entries share bytes.
//!
//! In archives that unpack to a million times their size, many entries share the same compressed bytes. Sorted by
//! offset, each entry must end before the next begins. Its minimal length is known from the directory; its own header
//! is checked later (`local.rs`).

use super::fields::damaged;
use crate::display::escape;
use crate::error::Result;
use crate::source::archive::plan::Plan;

/// Sets where each entry must end. Before the call, `bound` is where it ends at the earliest.
pub(super) fn bound(plan: &mut Plan, directory: u64, allow_overlap: bool) -> Result<()> {
    if allow_overlap {
        plan.members.iter_mut().for_each(|member| member.bound = directory);
        return Ok(());
    }
    let in_order = plan.members.is_sorted_by_key(|member| member.at);
    let mut order: Vec<u32> = Vec::new();
    if !in_order {
        order = (0..plan.members.len() as u32).collect();
        order.sort_unstable_by_key(|&number| plan.members[number as usize].at);
    }
    let nth = |place: usize| if in_order { place } else { order[place] as usize };
    for place in 0..plan.members.len() {
        let number = nth(place);
        let next = (place + 1 < plan.members.len()).then(|| nth(place + 1));
        let bound = next.map_or(directory, |next| plan.members[next].at);
        if plan.members[number].bound > bound {
            let shown = |number: usize| escape(plan.name(&plan.members[number]));
            let other = next.map_or_else(|| "its directory".to_owned(), |next| format!("\"{}\"", shown(next)));
            let why = format!(
                "entries share bytes: \"{}\" reaches into {other} (`allow_overlap=True` reads it)",
                shown(number)
            );
            return Err(damaged(why).hint(
                "zip bombs are made this way; if you trust it, use `allow_overlap=True` and `resume=\"update\"`",
            ));
        }
        plan.members[number].bound = bound;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::archive::member::Member;

    fn bounds(extents: &[(u64, u64)], directory: u64) -> Option<Vec<u64>> {
        let mut plan = Plan::default();
        plan.members = extents.iter().map(|&(at, bound)| Member { at, bound, ..Member::default() }).collect();
        bound(&mut plan, directory, false).ok()?;
        Some(plan.members.iter().map(|member| member.bound).collect())
    }

    #[test]
    fn entries_in_any_order_end_where_the_next_begins() {
        assert_eq!(bounds(&[(0, 40), (40, 80), (90, 130)], 130), Some(vec![40, 90, 130]));
        assert_eq!(bounds(&[(90, 130), (0, 40), (40, 80)], 131), Some(vec![131, 40, 90]));
        assert_eq!(bounds(&[(0, 41), (40, 80)], 80), None);
        assert_eq!(bounds(&[(0, 40), (0, 40)], 80), None, "one entry under two names");
        assert_eq!(bounds(&[(40, 81), (0, 40)], 80), None, "into the directory");
        assert_eq!(bounds(&[], 0), Some(vec![]));
    }
}
