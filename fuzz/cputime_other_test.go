//go:build !linux

package fuzz_test

import "time"

// cpuTime is not known: only memory is compared with its budget.
func cpuTime() time.Duration { return 0 }
