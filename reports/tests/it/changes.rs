//! The comparison of two runs, and badges.

use reports::badge::{self, Mood};
use reports::changes::{Change, Changes, Measured};
use reports::{Check, Counts, Outcome};
use rstest::rstest;

use crate::sample::{NASTY, check};

fn one(outcome: Outcome, expected: bool) -> Vec<Check> {
    let mut one = check("a/b", "wire", (0, "Produce", &[]), outcome);
    one.expected = expected;
    vec![one]
}

fn named(changes: &Changes) -> Vec<(&'static str, usize)> {
    let lists: [(&str, &Vec<Change>); 4] = [
        ("failing", &changes.newly_failing),
        ("passing", &changes.newly_passing),
        ("not run", &changes.not_run),
        ("new", &changes.new),
    ];
    let full = lists.into_iter().filter(|(_, list)| !list.is_empty());
    full.map(|(name, list)| (name, list.len())).collect()
}

#[rstest]
#[case(one(Outcome::Pass, true), one(Outcome::Pass, true), &[], false)]
#[case(one(Outcome::Pass, true), one(Outcome::Fail, false), &[("failing", 1)], true)]
#[case(one(Outcome::Fail, false), one(Outcome::Pass, true), &[("passing", 1)], false)]
#[case(one(Outcome::Fail, false), one(Outcome::Fail, false), &[], false)]
// An unexpected pass is as bad as a failure.
#[case(one(Outcome::Refused, true), one(Outcome::Pass, false), &[("failing", 1)], true)]
#[case(vec![], one(Outcome::Fail, false), &[("failing", 1)], true)]
#[case(vec![], one(Outcome::Pass, true), &[("new", 1)], false)]
#[case(one(Outcome::Pass, true), vec![], &[("not run", 1)], true)]
#[case(one(Outcome::Pass, true), one(Outcome::Skipped, true), &[("not run", 1)], true)]
#[case(one(Outcome::Skipped, true), one(Outcome::Pass, true), &[("new", 1)], false)]
#[case(one(Outcome::Skipped, true), vec![], &[], false)]
// A failure that is skipped now has not been mended.
#[case(one(Outcome::Fail, false), one(Outcome::Skipped, true), &[("not run", 1)], true)]
fn checks_are_compared(
    #[case] before: Vec<Check>,
    #[case] now: Vec<Check>,
    #[case] expected: &[(&str, usize)],
    #[case] regression: bool,
) {
    let changes = Changes::between(&before, &now, &[], &[]);
    assert_eq!(named(&changes), expected);
    assert_eq!(changes.is_regression(), regression);
}

#[test]
fn the_same_check_on_another_target_is_another_check() {
    let mut now = one(Outcome::Fail, false);
    now[0].target = "facade-cluster".into();
    now.extend(one(Outcome::Pass, true));
    let changes = Changes::between(&one(Outcome::Pass, true), &now, &[], &[]);
    assert_eq!(named(&changes), [("failing", 1)]);
    assert_eq!(changes.newly_failing[0].target, "facade-cluster");
}

fn number(value: f64, less_is_better: bool) -> Vec<Measured> {
    vec![Measured {
        what: "P6 produce".into(),
        value,
        unit: "x".into(),
        less_is_better,
    }]
}

#[rstest]
#[case(100.0, 110.0, true, 0)]
#[case(100.0, 120.0, true, 1)]
#[case(100.0, 50.0, true, 0)]
#[case(100.0, 90.0, false, 0)]
#[case(100.0, 80.0, false, 1)]
#[case(100.0, 200.0, false, 0)]
fn numbers_are_compared(
    #[case] before: f64,
    #[case] now: f64,
    #[case] less_is_better: bool,
    #[case] slower: usize,
) {
    let (before, now) = (number(before, less_is_better), number(now, less_is_better));
    let changes = Changes::between(&[], &[], &before, &now);
    assert_eq!(changes.slower.len(), slower);
    assert_eq!(changes.is_regression(), slower > 0);
}

#[test]
fn changes_are_told_and_escaped() {
    assert!(Changes::default().markdown().contains("Nothing."));
    let mut now = one(Outcome::Fail, false);
    now[0].reason = Some(NASTY.into());
    let (before, numbers) = (number(100.0, true), number(150.0, true));
    let changes = Changes::between(&one(Outcome::Pass, true), &now, &before, &numbers);
    let text = changes.markdown();
    assert!(text.contains("## Newly failing: 1"), "{text}");
    assert!(text.contains("| facade | a/b | pass | fail |"), "{text}");
    assert!(
        text.contains("| P6 produce | 100.00 x | 150.00 x |"),
        "{text}"
    );
    assert!(!text.contains("|pipe|"), "{text}");
}

#[test]
fn badges_tell_the_truth() {
    let counts = |checks: &[Check]| Counts::of(checks);
    let good = badge::of_counts("facade", &counts(&one(Outcome::Pass, true)));
    assert!(
        good.contains(">1 pass<") && good.contains("#2e7d32"),
        "{good}"
    );
    let bad = badge::of_counts("facade", &counts(&one(Outcome::Fail, false)));
    assert!(
        bad.contains(">1 unexpected<") && bad.contains("#c62828"),
        "{bad}"
    );
    let none = badge::of_counts("facade", &counts(&one(Outcome::Skipped, true)));
    assert!(
        none.contains(">nothing ran<") && none.contains("#c62828"),
        "{none}"
    );
    let nasty = badge::render(NASTY, "x", Mood::Good);
    assert!(
        !nasty.contains("<b>") && !nasty.contains("</script>"),
        "{nasty}"
    );
}
