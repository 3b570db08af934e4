package blocks

import (
	"fmt"
	"testing"
)

// Reach is what a reader touches: blocks that are to be verified, whole.
func TestReach(t *testing.T) {
	var file Memory
	content := make([]byte, 3*Size+100)
	for i := range content {
		content[i] = byte(i / 7)
	}
	if err := write(&file, [][]byte{content}); err != nil {
		t.Fatal(err)
	}
	c, err := open(file)
	if err != nil {
		t.Fatal(err)
	}
	const at = HeaderSize
	end := int64(at + len(content))
	for _, test := range []struct{ touched, start, end, from, to int64 }{
		{0, at + 5, at + 9, at, at + Size},
		{0, at + Size - 1, at + Size + 1, at, at + 2*Size},
		{0, at + 3*Size + 7, end, at + 3*Size, end},
		{0, at + 5, at + 5, at + 5, at + 5},
		{1, at + 5, at + 9, at + 5, at + 9},
		{1, at + 5, at + Size + 1, at + 5, at + 2*Size},
		{2, at + Size + 3, at + Size + 4, at + Size + 3, at + Size + 4},
		{4, at + 3, end, at + 3, end},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			if err := c.Touch(at, min(at+test.touched*Size, end)); err != nil {
				t.Fatal(err)
			}
			b := c.Reach(test.start, test.end)
			if n := test.to - test.from; int64(len(b)) != n || n > 0 && &b[0] != &c.b[test.from] {
				t.Errorf("%d bytes, want %d", len(b), n)
			}
		})
	}
	if c.Evicted() {
		t.Error("evicted, although the file is in the heap")
	}
}
