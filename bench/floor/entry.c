/* Where a floor begins: run(argc, argv) is defined before this text. */

#if __STDC_HOSTED__
int main(int argc, char **argv) { return run(argc, argv); }
#else
/* Without a C library the kernel's argument vector is all there is. */
__attribute__((used)) static void from_kernel(long *stack)
{
	sys(__NR_exit_group, run(stack[0], (char **)(stack + 1)), 0, 0, 0, 0, 0);
}

#if defined(__x86_64__)
asm(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall from_kernel\n\thlt\n");
#else
asm(".globl _start\n_start:\n\tmov x29, xzr\n\tmov x0, sp\n\tbl from_kernel\n\tbrk 0\n");
#endif

/* The compiler may call these two by itself. */
void *memset(void *to, int c, unsigned long n)
{
	for (volatile char *p = to; n--; p++)
		*p = c;
	return to;
}

void *memcpy(void *to, const void *from, unsigned long n)
{
	const char *q = from;
	for (volatile char *p = to; n--; p++)
		*p = *q++;
	return to;
}
#endif
