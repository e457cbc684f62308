#include "go_asm.h"
#include "textflag.h"

// The child of clone3 (or clone) and its interpreter, amd64.
//
// System calls: number in AX, arguments in DI SI DX R10 R8 R9, result in AX;
// the kernel clobbers CX and R11 and keeps the rest (syscall(2)).

// func rawClone(nr, a1, a2, a3, a4, a5, first uintptr, m *masks) uintptr
//
// Every signal is blocked over the call, so that the child begins with all of
// them blocked. It happens here, where no goroutine can be moved to another
// thread in between. R12 carries the first instr over the call into the child,
// R13 the masks; the kernel keeps both. The child never comes back here: it has
// no goroutine, no g and no Go stack.
TEXT ·rawClone(SB), NOSPLIT|NOFRAME, $0-72
	MOVQ m+56(FP), R13
	MOVL $14, AX               // rt_sigprocmask(SIG_BLOCK, &all, &old, 8)
	XORL DI, DI
	LEAQ masks_all(R13), SI
	LEAQ masks_old(R13), DX
	MOVL $8, R10
	SYSCALL
	MOVQ nr+0(FP), AX
	MOVQ a1+8(FP), DI
	MOVQ a2+16(FP), SI
	MOVQ a3+24(FP), DX
	MOVQ a4+32(FP), R10
	MOVQ a5+40(FP), R8
	MOVQ first+48(FP), R12
	SYSCALL
	TESTQ AX, AX
	JEQ  child
	MOVQ AX, ret+64(FP)
	MOVL $14, AX               // rt_sigprocmask(SIG_SETMASK, &old, NULL, 8)
	MOVL $2, DI
	LEAQ masks_old(R13), SI
	XORL DX, DX
	MOVL $8, R10
	SYSCALL
	RET
child:
	XORL BP, BP
	JMP  ·interpret(SB)

// interpret executes instrs from R12 on. It touches no memory but the arena
// and uses no stack. The closing instr is exit_group(0), so there is no end to
// test for. It never returns.
//
//	R12 the current instr, kept by the kernel
//	R13 the result, kept while the counter is read
TEXT ·interpret(SB), NOSPLIT|NOFRAME, $0-0
next:
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, instr_start(R12)
	MOVQ instr_inject(R12), AX
	TESTQ AX, AX
	JNE  returned              // fault injection: this result, no call
	MOVQ (instr_args+0)(R12), DI
	MOVQ (DI), DI
	MOVQ (instr_args+8)(R12), SI
	MOVQ (SI), SI
	MOVQ (instr_args+16)(R12), DX
	MOVQ (DX), DX
	MOVQ (instr_args+24)(R12), R10
	MOVQ (R10), R10
	MOVQ (instr_args+32)(R12), R8
	MOVQ (R8), R8
	MOVQ (instr_args+40)(R12), R9
	MOVQ (R9), R9
	MOVQ instr_nr(R12), AX
	SYSCALL
returned:
	MOVQ AX, R13
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, instr_end(R12)
	MOVQ R13, instr_ret(R12)
	MOVQ instr_exact(R12), AX
	TESTQ AX, AX
	JNE  exact
	CMPQ R13, $-4095           // errors are -4095..-1, unsigned the largest
	JCS  accepted
	CMPQ R13, (instr_allow+0)(R12)
	JEQ  accepted
	CMPQ R13, (instr_allow+8)(R12)
	JEQ  accepted
	CMPQ R13, (instr_allow+16)(R12)
	JEQ  accepted
	CMPQ R13, (instr_allow+24)(R12)
	JEQ  accepted
	JMP  stop
exact:
	CMPQ R13, instr_want(R12)
	JNE  stop
accepted:
	ADDQ $instr__size, R12
	JMP  next
stop:
	MOVL $231, AX              // exit_group(125)
	MOVL $125, DI
	SYSCALL
	INT  $3

// func Ticks() uint64
TEXT ·Ticks(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET
