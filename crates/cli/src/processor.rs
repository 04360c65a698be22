//! Checks that the processor has the instructions that this program was built with.
//!
//! Builds for x86-64 use the instructions of x86-64-v3 (AVX2, BMI2, FMA and others), which every x86-64 server has had
//! since 2015, unless `scripts/install` finds an older processor and builds for that. On such a processor, a program
//! that was built elsewhere would die of an illegal instruction. This check ends it with a message instead. It runs
//! before any other code of the program, as a function in `.preinit_array`, and is written in assembly because the
//! compiler may use the very instructions in question anywhere.

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", target_feature = "avx2"))]
mod check {
    use std::arch::naked_asm;

    #[used]
    #[unsafe(link_section = ".preinit_array")]
    static CHECK: unsafe extern "C" fn() = require_x86_64_v3;

    /// Returns on a processor with x86-64-v3; otherwise prints a message and ends the process with exit code 1.
    #[unsafe(naked)]
    unsafe extern "C" fn require_x86_64_v3() {
        naked_asm!(
            // cpuid overwrites rbx, which belongs to the caller.
            "push rbx",
            "xor eax, eax",
            "cpuid",
            "cmp eax, 7",
            "jb 2f",
            // Leaf 1, ecx: FMA (bit 12), MOVBE (22), OSXSAVE (27), AVX (28), F16C (29).
            "mov eax, 1",
            "xor ecx, ecx",
            "cpuid",
            "and ecx, 0x38401000",
            "cmp ecx, 0x38401000",
            "jne 2f",
            // XCR0: the system saves the SSE (bit 1) and AVX (2) registers.
            "xor ecx, ecx",
            "xgetbv",
            "and eax, 6",
            "cmp eax, 6",
            "jne 2f",
            // Leaf 7, ebx: BMI1 (bit 3), AVX2 (5), BMI2 (8).
            "mov eax, 7",
            "xor ecx, ecx",
            "cpuid",
            "and ebx, 0x128",
            "cmp ebx, 0x128",
            "jne 2f",
            // Extended leaf 1, ecx: LZCNT (bit 5).
            "mov eax, 0x80000001",
            "xor ecx, ecx",
            "cpuid",
            "test ecx, 0x20",
            "jz 2f",
            "pop rbx",
            "ret",
            // write(2, message, length), exit_group(1)
            "2:",
            "mov eax, 1",
            "mov edi, 2",
            "lea rsi, [rip + 3f]",
            "lea rdx, [rip + 4f]",
            "sub rdx, rsi",
            "syscall",
            "mov eax, 231",
            "mov edi, 1",
            "syscall",
            "3:",
            ".ascii \"error: this build of diligence needs a processor with AVX2 and BMI2 (x86-64-v3)\\n\"",
            ".ascii \"hint: build it on this machine with scripts/install, which builds for its processor\\n\"",
            "4:",
        );
    }
}
