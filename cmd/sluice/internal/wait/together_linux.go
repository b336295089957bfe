package wait

import "syscall"

// dieTogether has the kernel kill a program when the thread that started it ends, as it does if this process is killed.
func dieTogether(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
