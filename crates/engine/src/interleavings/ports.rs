//! Ports: no batch and no wake-up is lost, credits bound what is inside, whoever leaves frees the others.

use std::sync::Arc;

use diligence_base::Error;
use shuttle::thread;

use super::{interleave, own_waker, receive};
use crate::exchange::port::{Sender, port};
use crate::flow::Accept;

const SENDERS: usize = 3;
const BATCHES: usize = 4;

/// Sends batches as a packet does: after `Wait`, the next one not before there is credit. True if all were wanted.
fn send_all<T>(sender: Sender<T>, batches: impl IntoIterator<Item = T>) -> bool {
    let waker = own_waker();
    for batch in batches {
        let mut accept = sender.send(batch, &waker);
        while accept == Accept::Wait {
            thread::park();
            accept = sender.ready(&waker);
        }
        if accept == Accept::Enough {
            return false;
        }
    }
    true
}

#[test]
fn every_batch_arrives_once_and_in_its_senders_order() {
    interleave(4_000, || {
        let credits = 2;
        let (first, receiver) = port(credits);
        let threads: Vec<_> = (0..SENDERS)
            .map(|own| {
                let sender = first.clone();
                thread::spawn(move || assert!(send_all(sender, (0..BATCHES).map(|batch| (own, batch)))))
            })
            .collect();
        drop(first);
        let mut next = [0; SENDERS];
        while let Some(batch) = receive(&receiver) {
            let (sender, batch) = batch.unwrap();
            assert_eq!(batch, next[sender], "out of order");
            next[sender] += 1;
            assert!(receiver.queued() <= credits + SENDERS, "{} batches are queued", receiver.queued());
        }
        assert_eq!(next, [BATCHES; SENDERS]);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn all_credit_comes_back() {
    interleave(2_000, || {
        let (sender, receiver) = port(1);
        let other = sender.clone();
        let thread = thread::spawn(move || assert!(send_all(other, 0..BATCHES)));
        for _ in 0..BATCHES {
            receive(&receiver).unwrap().unwrap();
        }
        thread.join().unwrap();
        assert_eq!((sender.ready(&own_waker()), receiver.queued()), (Accept::More, 0));
        drop(sender);
        assert!(receive(&receiver).is_none());
    });
}

#[test]
fn a_receiver_that_leaves_frees_its_senders() {
    interleave(4_000, || {
        let token = Arc::new(());
        let (first, receiver) = port(1);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (sender, token) = (first.clone(), token.clone());
                thread::spawn(move || assert!(!send_all(sender, std::iter::repeat(token))))
            })
            .collect();
        for _ in 0..2 {
            receive(&receiver).unwrap().unwrap();
        }
        drop(receiver);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(Arc::strong_count(&token), 1, "batches that nobody can receive are held");
    });
}

#[test]
fn a_failure_frees_everybody() {
    interleave(4_000, || {
        let (first, receiver) = port(1);
        let (second, third) = (first.clone(), first.clone());
        let sending = thread::spawn(move || {
            // The yield is for PCT, which would let an endless sender go on for ever.
            assert!(!send_all(second, std::iter::repeat_with(thread::yield_now)));
        });
        let failing = thread::spawn(move || {
            let accept = third.send((), &own_waker());
            assert_ne!(accept, Accept::Enough, "nobody has failed yet");
            first.fail(Error::value("division by zero"));
        });
        let mut received = 0;
        let error = loop {
            match receive(&receiver).expect("an error comes before the end") {
                Ok(_) => received += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.message(), "division by zero", "after {received} batches");
        failing.join().unwrap();
        // The receiver is still there: the failure alone has to end the other sender.
        sending.join().unwrap();
        assert!(receive(&receiver).unwrap().is_err());
    });
}
