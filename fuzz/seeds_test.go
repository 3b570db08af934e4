package fuzz_test

import (
	"bytes"
	"math/rand/v2"
)

// variants returns n inputs that differ from base as damaged or edited files do: a bit, a byte, a
// piece cut out or doubled, an end that is missing. The same ones every time.
func variants(base []byte, n int) [][]byte {
	rng := rand.New(rand.NewPCG(uint64(len(base)), uint64(n)))
	var all [][]byte
	for i := range n {
		b := bytes.Clone(base)
		if len(b) == 0 {
			break
		}
		at := rng.IntN(len(b))
		end := min(len(b), at+1+rng.IntN(8))
		switch i % 5 {
		case 0:
			b[at] ^= 1 << rng.IntN(8)
		case 1:
			b[at] = byte(rng.Uint32())
		case 2:
			b = append(b[:at], b[end:]...)
		case 3:
			b = append(b[:end], base[at:]...)
		case 4:
			b = b[:at]
		}
		all = append(all, b)
	}
	return all
}
