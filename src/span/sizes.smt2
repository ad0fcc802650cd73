; Sizes that are too many to go through: what has no size class. Each question is whether some size
; (64 bits) breaks a rule; a solver says that there is none (unsat), or names one.
;
;   ; Holds: a rule     its negation must be unsat
;   ; Broken: ...       the same without one of its conditions must be sat
;
; tests/proof/run sizes

(set-logic QF_BV)
(define-sort size () (_ BitVec 64))

(define-const KIB64 size (bvshl #x0000000000000001 #x0000000000000010)) ; SLAB_BYTES
(define-const GIB size (bvshl #x0000000000000001 #x000000000000001e))
(define-const MOST size #x7fffffffffffffff) ; PTRDIFF_MAX
(define-const ZERO size #x0000000000000000)
(define-const ONE size #x0000000000000001)

; base/base.h
(define-fun align_up ((x size) (a size)) size (bvand (bvadd x (bvsub a ONE)) (bvnot (bvsub a ONE))))
(define-fun divide_up ((x size) (d size)) size (bvudiv (bvadd x (bvsub d ONE)) d))
(define-fun is_power ((a size)) Bool (and (not (= a ZERO)) (= (bvand a (bvsub a ONE)) ZERO)))
(define-fun is_aligned ((x size) (a size)) Bool (= (bvand x (bvsub a ONE)) ZERO))

; No more than it must be: at least x, a multiple of a, and none in between.
(define-fun is_next ((result size) (x size) (a size)) Bool
  (and (bvuge result x) (is_aligned result a) (bvult (bvsub result x) a)))

(declare-const s size)     ; what is asked for
(declare-const a size)     ; at a multiple of this
(declare-const page size)  ; of 4 to 64 KiB
(declare-const start size) ; an address
(assert (is_power a))
(assert (is_power page))
(assert (bvuge page #x0000000000001000))
(assert (bvule page KIB64))

; --- slab/classes.h:class_aligned_size, of which classes are found

; Holds: an aligned size is the next multiple, whatever is asked for
(push)
(assert (and (bvule s MOST) (bvule a KIB64) (not (= s ZERO))))
(assert (not (is_next (align_up s a) s a)))
(check-sat)
(pop)

; Broken: sizes over PTRDIFF_MAX, too: the sum begins anew at 0
(push)
(assert (and (bvule a KIB64) (not (= s ZERO))))
(assert (not (is_next (align_up s a) s a)))
(check-sat)
(pop)

; --- span/large.c:large_take, in the window

; Holds: a span's slabs hold the block, the last one is needed, and they are at most 16,384
(push)
(assert (and (bvuge s ONE) (bvult s GIB)))
(assert (not (and (is_next (bvmul (divide_up s KIB64) KIB64) s KIB64)
                  (bvule (divide_up s KIB64) #x0000000000004000))))
(check-sat)
(pop)

; --- front/blocks.c:front_good_size, over the classes: what malloc_usable_size will say

(define-fun good_size ((x size)) size (align_up x (ite (bvult x GIB) KIB64 page)))
(define-fun usable_size ((x size)) size ; as large_take and huge_take have it
  (ite (bvult x GIB) (bvmul (divide_up x KIB64) KIB64) (align_up x page)))

; Holds: what was promised is what there is
(push)
(assert (and (bvuge s ONE) (bvule s (bvsub MOST page))))
(assert (not (= (good_size s) (usable_size s))))
(check-sat)
(pop)

; Holds: who asks for the promised size gets just that
(push)
(assert (and (bvuge s ONE) (bvule s (bvsub MOST KIB64))))
(assert (not (= (usable_size (good_size s)) (good_size s))))
(check-sat)
(pop)

; Broken: were large blocks below 1 GiB whole pages, and not whole slabs
(push)
(assert (and (bvuge s ONE) (bvule s (bvsub MOST KIB64))))
(assert (not (= (usable_size (align_up s page)) (align_up s page))))
(check-sat)
(pop)

; --- span/huge.c:huge_take, outside the window

; Holds: what passes its test is whole pages, at most PTRDIFF_MAX bytes
(push)
(assert (not (bvugt s (bvsub MOST page))))
(assert (not (and (=> (not (= s ZERO)) (is_next (align_up s page) s page))
                  (bvule (align_up s page) MOST))))
(check-sat)
(pop)

; Broken: a test of PTRDIFF_MAX alone
(push)
(assert (not (bvugt s MOST)))
(assert (not (bvule (align_up s page) MOST)))
(check-sat)
(pop)

; --- os/memory.c:os_map_aligned

(define-const slack size (bvsub a page))
(define-const mapped size (bvadd s slack))
(define-const before size (bvsub (align_up start a) start))

; Holds: what is mapped has the aligned block in it, and before and behind it whole pages
(push)
(assert (and (bvuge s ONE) (is_aligned s page) (bvugt a page) (bvule a MOST)))
(assert (not (bvugt s (bvsub MOST slack))))
(assert (and (is_aligned start page) (bvult start (bvsub MOST mapped)))) ; mmap gives no other
(assert (not (and (is_aligned (bvadd start before) a)
                  (bvule before slack)
                  (is_aligned before page)
                  (is_aligned (bvsub slack before) page)
                  (bvuge mapped s)
                  (= (bvadd before (bvadd s (bvsub slack before))) mapped))))
(check-sat)
(pop)

; Broken: without the test against PTRDIFF_MAX
(push)
(assert (and (bvuge s ONE) (is_aligned s page) (bvugt a page)))
(assert (not (bvuge mapped s)))
(check-sat)
(pop)
