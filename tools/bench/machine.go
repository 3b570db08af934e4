package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// machine describes the machine of a report. Unknown fields stay empty.
type machine struct {
	CPU      string  `json:"cpu"`
	Features string  `json:"features"` // those used by kernels
	Threads  int     `json:"threads"`
	L3       string  `json:"l3,omitempty"`
	MemoryGB float64 `json:"memory_gb"`
	Kernel   string  `json:"kernel"`
	Disk     string  `json:"disk,omitempty"` // file system of the scratch directory
	Go       string  `json:"go"`
	Compiler string  `json:"g++,omitempty"`
	Node     string  `json:"node,omitempty"`
	Load     string  `json:"load,omitempty"` // averages at the start: above 0.2, other processes were running
}

func describe(scratch string) machine {
	m := machine{
		CPU: cpuInfo("model name"), Threads: runtime.NumCPU(), Go: runtime.Version(),
		L3:       strings.TrimSpace(read("/sys/devices/system/cpu/cpu0/cache/index3/size")),
		Compiler: firstLine("g++", "-dumpfullversion"), Node: firstLine("node", "--version"),
		Load: strings.Join(firstN(strings.Fields(read("/proc/loadavg")), 3), " "),
	}
	flags := strings.Fields(cpuInfo("flags"))
	for _, f := range []string{"avx2", "fma", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni", "avx512_vpopcntdq", "asimd", "asimddp"} {
		if slices.Contains(flags, f) {
			m.Features = strings.TrimSpace(m.Features + " " + f)
		}
	}
	var kb float64
	fmt.Sscanf(read("/proc/meminfo"), "MemTotal: %f kB", &kb)
	m.MemoryGB = kb / (1 << 20)
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	if out, err := exec.Command("stat", "-f", "-c", "%T", scratch).Output(); err == nil {
		m.Disk = strings.TrimSpace(string(out))
	}
	return m
}

func (m machine) String() string {
	return fmt.Sprintf("Machine: %d × %s (%s), L3 %s, %s GB, %s, disk %s, %s, g++ %s, node %s; load at the start %s.",
		m.Threads, m.CPU, m.Features, m.L3, number(m.MemoryGB), m.Kernel, m.Disk, m.Go, m.Compiler, m.Node, m.Load)
}

// cpuInfo returns the first value of a key in /proc/cpuinfo.
func cpuInfo(key string) string {
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func read(name string) string {
	b, _ := os.ReadFile(name)
	return string(b)
}

func firstLine(name string, args ...string) string {
	out, _ := exec.Command(name, args...).Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

func firstN(s []string, n int) []string { return s[:min(n, len(s))] }
