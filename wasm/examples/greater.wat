;; The greater of two texts by their bytes; of whole columns, without a toolchain. As the steps of an aggregate it finds
;; the greatest text, or the latest time:
;;   CREATE FUNCTION greater(s text, x text) RETURNS text LANGUAGE wasm IMMUTABLE STRICT AS '…/greater.wat';
;;   CREATE AGGREGATE greatest_text(text) (SFUNC = greater, STYPE = text, COMBINEFUNC = greater);
(module
  (memory (export "memory") 1)
  ;; Room for a batch begins here; it is used again by the next.
  (global $room i32 (i32.const 1024))
  (global $end (mut i32) (i32.const 0))

  (func (export "diligence_alloc") (param $bytes i32) (result i32)
    (local $pages i32)
    ;; Twice as much: what the function returns lies behind what it gets, and is no longer.
    (local.set $pages
      (i32.sub
        (i32.div_u (i32.add (i32.mul (local.get $bytes) (i32.const 2)) (i32.const 132095)) (i32.const 65536))
        (memory.size)))
    (if (i32.gt_s (local.get $pages) (i32.const 0))
      (then (if (i32.eq (memory.grow (local.get $pages)) (i32.const -1)) (then (return (i32.const 0))))))
    (global.set $end (i32.add (global.get $room) (local.get $bytes)))
    (global.get $room))
  (func (export "diligence_reset"))

  ;; Whether the second text is greater.
  (func $is_greater (param $a i32) (param $a_bytes i32) (param $b i32) (param $b_bytes i32) (result i32)
    (local $at i32) (local $of_a i32) (local $of_b i32)
    (loop $next
      (if (i32.ge_u (local.get $at) (local.get $b_bytes)) (then (return (i32.const 0))))
      (if (i32.ge_u (local.get $at) (local.get $a_bytes)) (then (return (i32.const 1))))
      (local.set $of_a (i32.load8_u (i32.add (local.get $a) (local.get $at))))
      (local.set $of_b (i32.load8_u (i32.add (local.get $b) (local.get $at))))
      (if (i32.ne (local.get $of_a) (local.get $of_b))
        (then (return (i32.gt_u (local.get $of_b) (local.get $of_a)))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next))
    (unreachable))

  (func (export "greater") (param $rows i32) (param $columns i32) (param $result i32) (result i32)
    (local $a_offsets i32) (local $b_offsets i32) (local $offsets i32) (local $values i32)
    (local $a i32) (local $a_bytes i32) (local $b i32) (local $b_bytes i32) (local $to i32)
    (local.set $a_offsets (i32.load offset=12 (local.get $columns)))
    (local.set $b_offsets (i32.load offset=36 (local.get $columns)))
    (local.set $offsets (global.get $end))
    (local.set $values (i32.add (local.get $offsets) (i32.mul (i32.add (local.get $rows) (i32.const 1)) (i32.const 4))))
    (local.set $to (local.get $values))
    (i32.store offset=12 (local.get $result) (local.get $offsets))
    (i32.store offset=16 (local.get $result) (local.get $values))
    (i32.store (local.get $offsets) (i32.const 0))
    (if (local.get $rows) (then (loop $next
      (local.set $a (i32.add (i32.load offset=16 (local.get $columns)) (i32.load (local.get $a_offsets))))
      (local.set $a_bytes (i32.sub (i32.load offset=4 (local.get $a_offsets)) (i32.load (local.get $a_offsets))))
      (local.set $b (i32.add (i32.load offset=40 (local.get $columns)) (i32.load (local.get $b_offsets))))
      (local.set $b_bytes (i32.sub (i32.load offset=4 (local.get $b_offsets)) (i32.load (local.get $b_offsets))))
      (if (call $is_greater (local.get $a) (local.get $a_bytes) (local.get $b) (local.get $b_bytes))
        (then
          (local.set $a (local.get $b))
          (local.set $a_bytes (local.get $b_bytes))))
      (memory.copy (local.get $to) (local.get $a) (local.get $a_bytes))
      (local.set $to (i32.add (local.get $to) (local.get $a_bytes)))
      (local.set $offsets (i32.add (local.get $offsets) (i32.const 4)))
      (i32.store (local.get $offsets) (i32.sub (local.get $to) (local.get $values)))
      (local.set $a_offsets (i32.add (local.get $a_offsets) (i32.const 4)))
      (local.set $b_offsets (i32.add (local.get $b_offsets) (i32.const 4)))
      (local.set $rows (i32.sub (local.get $rows) (i32.const 1)))
      (br_if $next (local.get $rows)))))
    (i32.const 0)))
