//! The simulated machine keeps what `host` promises.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::Host;
use sim::machine::{EPOCH_MS, Machine};
use sim::trace::{Node, Trace};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Runs `work` on the clients' machine of a small world, beside an echo on the facade's.
fn on_a_machine<F>(machine: Machine, work: impl FnOnce(Host) -> F + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let mut sim = turmoil::Builder::new()
        .rng_seed(1)
        .tick_duration(Duration::from_millis(10))
        .build();
    sim.host(Node::Facade.name(), || async {
        let host = Machine::new(Node::Facade, 1, Trace::default()).boot();
        let mut listener = host.net.bind("0.0.0.0:7".parse()?).await?;
        loop {
            let mut stream = listener.accept().await?;
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).await?;
            stream.write_all(&bytes).await?;
        }
    });
    sim.client(Node::Clients.name(), async move {
        work(machine.boot()).await;
        Ok(())
    });
    sim.run().expect("the work is done");
}

#[test]
fn streams_carry_bytes_and_know_their_ends() {
    let trace = Trace::default();
    on_a_machine(
        Machine::new(Node::Clients, 1, trace.clone()),
        |host| async move {
            let mut stream = host.net.connect("facade", 7).await.expect("connected");
            let echo = host.net.resolve("facade", 7).await.expect("known");
            assert_eq!(echo, [stream.peer_addr()]);
            assert_ne!(stream.local_addr().ip(), stream.peer_addr().ip());
            let parts = [std::io::IoSlice::new(b"he"), std::io::IoSlice::new(b"llo")];
            assert_eq!(
                stream.write_vectored(&parts).await.expect("open"),
                5,
                "as one segment"
            );
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).await.expect("echoed");
            assert_eq!(&bytes, b"hello");
            assert!(host.net.resolve("nobody", 7).await.is_err());
            assert!(host.net.connect("facade", 8).await.is_err());
        },
    );
    assert_eq!(trace.sent_bytes(), 5);
    let lines = trace.lines();
    assert!(lines[0].contains("facade:7 5 bytes 9a71bb4c"), "{lines:?}");
}

#[test]
fn clocks_run_with_the_simulation_and_only_the_wall_jumps() {
    let machine = Machine::new(Node::Clients, 1, Trace::default());
    let jumps = machine.clone();
    on_a_machine(machine, move |host| async move {
        let (monotonic, wall) = (host.clock.monotonic(), host.clock.wall().epoch_ms());
        assert_eq!(wall, EPOCH_MS);
        tokio::time::sleep(Duration::from_millis(1_234)).await;
        assert_eq!(
            host.clock.monotonic() - monotonic,
            Duration::from_millis(1_234)
        );
        assert_eq!(host.clock.wall().epoch_ms(), wall + 1_234);
        jumps.jump(-60_000);
        assert_eq!(host.clock.wall().epoch_ms(), wall + 1_234 - 60_000);
        assert_eq!(
            host.clock.monotonic() - monotonic,
            Duration::from_millis(1_234)
        );
    });
}

#[test]
fn entropy_is_the_seeds_and_never_repeats_over_a_restart() {
    let drawn = |seed| {
        let machine = Machine::new(Node::Clients, seed, Trace::default());
        let numbers = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..2 {
            let numbers = Arc::clone(&numbers);
            on_a_machine(machine.clone(), move |host| async move {
                numbers.lock().unwrap().push(host.entropy.next_u64());
            });
        }
        numbers.lock().unwrap().clone()
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
    assert_ne!(drawn(1)[0], drawn(1)[1]);
}
