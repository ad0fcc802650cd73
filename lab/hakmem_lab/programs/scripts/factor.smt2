; z3: two factors of 16 bits of a given product, as a question about bits. Terms, clauses and watch
; lists come and go by the million.
(set-logic QF_BV)
(declare-fun x () (_ BitVec 32))
(declare-fun y () (_ BitVec 32))
(assert (= (bvmul x y) (_ bv2621429689 32)))
(assert (bvult x (_ bv65536 32)))
(assert (bvult y (_ bv65536 32)))
(assert (bvugt x (_ bv1 32)))
(assert (bvuge y x))
(check-sat)
(get-value (x y))
