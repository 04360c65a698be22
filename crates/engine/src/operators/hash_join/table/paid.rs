//! What pays for a table.

use std::sync::Arc;

use diligence_memory::{QueryMemory, Reservation};

use crate::reuse::tables::Lent;
use crate::sync::Mutex;

/// What pays for a table, and whose it is.
pub(in super::super) struct Paid(Mutex<Payment>);

struct Payment {
    reservation: Reservation,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Own,
    Lent,
    Leaving,
}

impl Paid {
    pub fn new(reservation: Reservation) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Payment { reservation, fate: Fate::Own })))
    }

    pub fn bytes(&self) -> usize {
        self.0.lock().reservation.bytes()
    }

    pub fn sibling(&self) -> Reservation {
        self.0.lock().reservation.sibling()
    }

    pub fn is_lent(&self) -> bool {
        self.0.lock().fate == Fate::Lent
    }

    pub fn is_leaving(&self) -> bool {
        self.0.lock().fate == Fate::Leaving
    }

    /// Has another account count it, if it has room: from now on it stays in memory as long as anybody reads it.
    pub fn lend(&self, memory: &QueryMemory, operator: &'static str, has_room: bool) -> Lent {
        let mut payment = self.0.lock();
        match payment.fate {
            Fate::Lent => Lent::Before,
            Fate::Own if has_room => {
                payment.fate = Fate::Lent;
                payment.reservation.move_to(memory, operator);
                Lent::Now
            }
            Fate::Own | Fate::Leaving => Lent::No,
        }
    }

    /// From now on nobody else may have it. False if somebody has.
    pub fn leave(&self) -> bool {
        let mut payment = self.0.lock();
        if payment.fate == Fate::Lent {
            return false;
        }
        payment.fate = Fate::Leaving;
        true
    }
}
