package wait

import "syscall"

// killWithParent has the kernel kill a program when the thread that started it ends, as it does if this process is killed.
func killWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
