package share

import "golang.org/x/sys/unix"

// peerOf returns the process at the other end of a socket, and its user.
func peerOf(socket int) (pid, uid int, err error) {
	cred, err := unix.GetsockoptXucred(socket, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	pid, err = unix.GetsockoptInt(socket, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	return pid, int(cred.Uid), err
}

// stopped reports whether a process is stopped, by a signal or a debugger.
func stopped(pid int) bool {
	const sstop = 4 // SSTOP of sys/proc.h
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err == nil && info.Proc.P_stat == sstop
}
