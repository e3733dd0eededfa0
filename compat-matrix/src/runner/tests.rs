//! What a check may do to the run: nothing.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kafka_wire::ApiKey;
use reports::{Check, Outcome};
use tokio::time::sleep;

use super::run;
use crate::cx::Cx;
use crate::expectations::Expectations;
use crate::spec::{Lane, Spec, expect_eq};
use crate::target::{Kind, Target};
use crate::testing::serve;
use crate::wire::Access;

async fn cx() -> Cx {
    let address = Access::plain(serve(|_| None).await);
    let target = Target::start(Kind::Bootstrap(address)).await.unwrap();
    Cx::new(Arc::new(target), "test")
}

async fn outcomes(specs: &[Spec]) -> Vec<Check> {
    run(&cx().await, specs, &Expectations::default(), &|_| {}).await
}

#[tokio::test]
async fn a_panic_fails_its_check_only_and_keeps_its_evidence() {
    let specs = [
        Spec::new("a", "a", "wire", |cx| async move {
            cx.record.seen(ApiKey::FETCH, 4);
            cx.record.note("before");
            if true {
                panic!("at {}", 5);
            }
            Ok(())
        }),
        Spec::new("b", "b", "wire", |_| async { Ok(()) }),
    ];
    let checks = outcomes(&specs).await;
    assert_eq!(checks[0].outcome, Outcome::Fail);
    assert_eq!(
        checks[0].reason.as_deref(),
        Some("the check panicked: at 5")
    );
    assert_eq!(checks[0].evidence.log, ["before"]);
    assert_eq!(checks[0].apis[0].versions, [4]);
    assert_eq!(
        (checks[1].outcome, checks[1].expected),
        (Outcome::Pass, true)
    );
}

#[tokio::test]
async fn a_check_that_never_ends_fails_in_time() {
    let forever = Spec::new("a", "a", "wire", |_| async {
        std::future::pending::<()>().await;
        Ok(())
    })
    .apis([ApiKey::PRODUCE])
    .within(Duration::from_millis(30));
    let checks = outcomes(&[forever]).await;
    assert_eq!(
        checks[0].reason.as_deref(),
        Some("not done within 0.09 s"),
        "three times: it is no node of ours"
    );
    assert_eq!(checks[0].apis[0].versions, [0_i16; 0], "nothing was seen");
}

#[tokio::test]
async fn results_keep_the_order_of_the_specs_and_are_told_as_they_come() {
    let slow_first = |id: &str, ms: u64| {
        Spec::new(id, id, "wire", move |_| async move {
            sleep(Duration::from_millis(ms)).await;
            Ok(())
        })
    };
    let specs = [slow_first("a", 40), slow_first("b", 1)];
    let told = Mutex::new(Vec::new());
    let checks = run(&cx().await, &specs, &Expectations::default(), &|check| {
        told.lock().unwrap().push(check.id.clone());
    })
    .await;
    assert_eq!(told.into_inner().unwrap(), ["b", "a"]);
    assert_eq!(checks[0].id, "a");
}

#[tokio::test]
async fn who_wants_to_be_alone_is_alone() {
    let running = Arc::new(AtomicUsize::new(0));
    let disturbed = Arc::new(AtomicBool::new(false));
    let mut specs = Vec::new();
    for n in 0..20 {
        let (running, disturbed) = (Arc::clone(&running), Arc::clone(&disturbed));
        let alone = n % 5 == 0;
        let spec = Spec::new(n.to_string(), "x", "wire", move |_| {
            let (running, disturbed) = (Arc::clone(&running), Arc::clone(&disturbed));
            async move {
                let others = running.fetch_add(1, Ordering::SeqCst);
                sleep(Duration::from_millis(3)).await;
                if alone && (others > 0 || running.load(Ordering::SeqCst) > 1) {
                    disturbed.store(true, Ordering::SeqCst);
                }
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        });
        specs.push(spec.lane(if alone { Lane::Alone } else { Lane::Shared }));
    }
    outcomes(&specs).await;
    assert!(!disturbed.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_server_of_somebody_else_is_not_killed_but_the_check_skipped() {
    let spec = Spec::new("a", "a", "wire", |cx| async move {
        cx.own_node(&[]).await?.kill().await
    });
    let checks = outcomes(&[spec.lane(Lane::OwnNode)]).await;
    assert_eq!(
        (checks[0].outcome, checks[0].expected),
        (Outcome::Skipped, true)
    );
}

#[tokio::test]
async fn a_difference_is_evidence() {
    let spec = Spec::new("a", "a", "wire", |_| async { expect_eq("x", &1, &2) });
    let checks = outcomes(&[spec]).await;
    let difference = checks[0].evidence.difference.clone().unwrap();
    assert_eq!(difference.to_string(), "x: expected 1, got 2");
    assert!(!checks[0].expected);
}

#[tokio::test]
async fn names_are_used_once() {
    let cx = cx().await;
    let (a, b) = (cx.unique("t"), cx.for_check().unique("t"));
    assert_ne!(a, b);
    assert!(a.starts_with("t-test-"), "{a}");
}

#[tokio::test]
async fn nobody_there_is_told() {
    let address = Access::plain("127.0.0.1:1");
    let tried = crate::wire::advertised(&address).await;
    assert!(tried.unwrap_err().contains("refused"));
}
