package static

import "encoding/binary"

const (
	signs = 0x8080808080808080 // turns x into x+128 in each byte
	even  = 0x00ff00ff00ff00ff
	most  = 256 // rows whose bytes fit into a sum of 16 bits
	block = 256 // components that are summed at once
)

// addBytes adds rows of signed bytes to a sum, whose length is a multiple of block. It adds eight
// bytes at a time, as two words of four sums with 16 bits.
func addBytes(sum []float64, table []byte, rows []int) {
	dim := len(sum)
	for ; len(rows) > 0; rows = rows[min(len(rows), most):] {
		part := rows[:min(len(rows), most)]
		for begin := 0; begin < dim; begin += block {
			var lanes [block / 4]uint64 // in turn bytes 0, 2, 4, 6 and 1, 3, 5, 7 of eight
			for _, r := range part {
				addRow(&lanes, (*[block]byte)(table[r*dim+begin:]))
			}
			bias := 128 * len(part)
			for i, lane := range lanes {
				at := begin + i/2*8 + i%2
				for j := range 4 {
					sum[at+2*j] += float64(int(lane>>(16*j)&0xffff) - bias)
				}
			}
		}
	}
}

func addRow(lanes *[block / 4]uint64, row *[block]byte) {
	for i := 0; i < block; i += 16 {
		x := binary.LittleEndian.Uint64(row[i:]) ^ signs
		y := binary.LittleEndian.Uint64(row[i+8:]) ^ signs
		lanes[i/4] += x & even
		lanes[i/4+1] += x >> 8 & even
		lanes[i/4+2] += y & even
		lanes[i/4+3] += y >> 8 & even
	}
}
