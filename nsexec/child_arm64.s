#include "go_asm.h"
#include "textflag.h"

// The child of clone3 (or clone) and its interpreter, arm64.
//
// System calls: number in R8, arguments in R0..R5, result in R0; the kernel
// keeps every other register (syscall(2)).

// func rawClone(nr, a1, a2, a3, a4, a5, first uintptr, m *masks) uintptr
//
// Every signal is blocked over the call, so that the child begins with all of
// them blocked. It happens here, where no goroutine can be moved to another
// thread in between. R19 carries the first instr over the call into the child,
// R20 the masks. The child never comes back here: it has no goroutine, no g and
// no Go stack.
TEXT ·rawClone(SB), NOSPLIT|NOFRAME, $0-72
	MOVD m+56(FP), R20
	MOVD $135, R8              // rt_sigprocmask(SIG_BLOCK, &all, &old, 8)
	MOVD $0, R0
	ADD  $masks_all, R20, R1
	ADD  $masks_old, R20, R2
	MOVD $8, R3
	SVC
	MOVD nr+0(FP), R8
	MOVD a1+8(FP), R0
	MOVD a2+16(FP), R1
	MOVD a3+24(FP), R2
	MOVD a4+32(FP), R3
	MOVD a5+40(FP), R4
	MOVD first+48(FP), R19
	SVC
	CBZ  R0, child
	MOVD R0, ret+64(FP)
	MOVD $135, R8              // rt_sigprocmask(SIG_SETMASK, &old, NULL, 8)
	MOVD $2, R0
	ADD  $masks_old, R20, R1
	MOVD $0, R2
	MOVD $8, R3
	SVC
	RET
child:
	B    ·interpret(SB)

// interpret executes instrs from R19 on. It touches no memory but the arena
// and uses no stack. The closing instr is exit_group(0), so there is no end to
// test for. It never returns.
//
//	R19 the current instr
//	R20 scratch, R21 the result's lower bound of errors
TEXT ·interpret(SB), NOSPLIT|NOFRAME, $0-0
next:
	MRS  CNTVCT_EL0, R20
	MOVD R20, instr_start(R19)
	MOVD instr_inject(R19), R0
	CBNZ R0, returned          // fault injection: this result, no call
	MOVD (instr_args+0)(R19), R0
	MOVD (R0), R0
	MOVD (instr_args+8)(R19), R1
	MOVD (R1), R1
	MOVD (instr_args+16)(R19), R2
	MOVD (R2), R2
	MOVD (instr_args+24)(R19), R3
	MOVD (R3), R3
	MOVD (instr_args+32)(R19), R4
	MOVD (R4), R4
	MOVD (instr_args+40)(R19), R5
	MOVD (R5), R5
	MOVD instr_nr(R19), R8
	SVC
returned:
	MRS  CNTVCT_EL0, R20
	MOVD R20, instr_end(R19)
	MOVD R0, instr_ret(R19)
	MOVD instr_exact(R19), R20
	CBNZ R20, exact
	MOVD $-4095, R21           // errors are -4095..-1, unsigned the largest
	CMP  R21, R0
	BLO  accepted
	MOVD (instr_allow+0)(R19), R20
	CMP  R20, R0
	BEQ  accepted
	MOVD (instr_allow+8)(R19), R20
	CMP  R20, R0
	BEQ  accepted
	MOVD (instr_allow+16)(R19), R20
	CMP  R20, R0
	BEQ  accepted
	MOVD (instr_allow+24)(R19), R20
	CMP  R20, R0
	BEQ  accepted
	B    stop
exact:
	MOVD instr_want(R19), R20
	CMP  R20, R0
	BNE  stop
accepted:
	ADD  $instr__size, R19
	B    next
stop:
	MOVD $94, R8               // exit_group(125)
	MOVD $125, R0
	SVC
	BRK

// func Ticks() uint64
TEXT ·Ticks(SB), NOSPLIT, $0-8
	MRS  CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET
