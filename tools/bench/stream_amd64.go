package main

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

func sumAVX512(p unsafe.Pointer, blocks int) uint64
func sumAVX2(p unsafe.Pointer, blocks int) uint64

func vectorSums() map[string]sumFunc {
	sums := map[string]sumFunc{}
	add := func(name string, fn func(unsafe.Pointer, int) uint64) {
		sums[name] = func(b []byte) uint64 {
			if len(b) < 512 {
				return sumWords(b)
			}
			return fn(unsafe.Pointer(unsafe.SliceData(b)), len(b)/512)
		}
	}
	if cpu.X86.HasAVX2 {
		add("avx2", sumAVX2)
	}
	if cpu.X86.HasAVX512F {
		add("avx512", sumAVX512)
	}
	return sums
}
