package docjson

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strconv"
)

// ParseVector appends the numbers of the JSON array b to dst. Each number is rounded to the nearest
// float64 and then to the nearest float32, as NumPy converts the result of json.load. The grammar
// is strictly RFC 8259; white space around the array is allowed. The tokens NaN, Infinity and
// -Infinity, which Python's json.dumps writes, and numbers beyond the range of float32 give an
// error that wraps ErrNotFinite. Every error is a *VectorError; a truncated array wraps
// io.ErrUnexpectedEOF. On error, dst is returned unchanged.
func ParseVector(dst []float32, b []byte) ([]float32, error) {
	v, i, err := appendArray(dst, b, 0)
	if err != nil {
		return dst, err
	}
	if i = skipSpace(b, i); i < len(b) {
		return dst, &VectorError{Index: len(v) - len(dst), Offset: i,
			Err: fmt.Errorf("%s after the array", quoted(b[i]))}
	}
	return v, nil
}

// appendArray reads the array that starts at or after b[i] and returns the index after it.
func appendArray(dst []float32, b []byte, i int) (_ []float32, end int, err error) {
	first := len(dst)
	fail := func(at int, err error) ([]float32, int, error) {
		return dst[:first], at, &VectorError{Index: len(dst) - first, Offset: at, Err: err}
	}
	i = skipSpace(b, i)
	switch {
	case i == len(b):
		return fail(i, io.ErrUnexpectedEOF)
	case b[i] != '[':
		return fail(i, fmt.Errorf("%s instead of an array of numbers", describe(b[i:])))
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return dst, i + 1, nil
	}
	for {
		f, next := fastNumber(b, i)
		if next < 0 {
			if f, next, err = slowNumber(b, i); err != nil {
				return fail(next, err)
			}
		}
		dst = append(dst, f)
		i = next
		if i+1 < len(b) && b[i] == ',' && b[i+1] == ' ' { // as json.dumps separates
			i += 2
		} else {
			i = skipSpace(b, i)
			switch {
			case i == len(b):
				return fail(i, io.ErrUnexpectedEOF)
			case b[i] == ']':
				return dst, i + 1, nil
			case b[i] != ',':
				return fail(i, fmt.Errorf("%s instead of a comma or the end of the array", quoted(b[i])))
			}
			i++
		}
		if i < len(b) && b[i] <= ' ' {
			i = skipSpace(b, i)
		}
	}
}

// fastNumber reads the number at b[i] in the common case: at most 19 significant digits, at most 23
// digits in the fraction, not at the very end of b, and decided by round32. Otherwise next is
// negative. It accepts JSON numbers only, except that a digit may follow an accepted leading zero;
// the caller then finds no comma there.
func fastNumber(b []byte, i int) (f float32, next int) {
	const window = 32 // bytes readable without a bounds check: sign, digit, point, 3*8 digits, exponent
	if len(b)-i < window {
		return 0, -1
	}
	minus := 0 // a branch on the sign would be mispredicted half of the time
	if b[i] == '-' {
		minus = 1
	}
	i += minus
	sign := uint32(minus) << 31
	mantissa := uint64(b[i] - '0')
	if mantissa > 9 {
		return 0, -1
	}
	i++
	digits := 0 // significant digits before the point
	if mantissa != 0 {
		for digits = 1; i < len(b) && b[i]-'0' <= 9; i++ {
			mantissa = mantissa*10 + uint64(b[i]-'0')
			digits++
		}
	}
	exp := 0
	if len(b)-i < window-2 {
		return 0, -1
	}
	if b[i] == '.' {
		i++
		first := binary.LittleEndian.Uint64(b[i:]) ^ zeros
		word, n := first, leadingDigits(first)
		fraction := n
		if n == 8 {
			mantissa = mantissa*1e8 + eightDigits(word)
			word = binary.LittleEndian.Uint64(b[i+8:]) ^ zeros
			n = leadingDigits(word)
			fraction += n
			if n == 8 {
				mantissa = mantissa*1e8 + eightDigits(word)
				word = binary.LittleEndian.Uint64(b[i+16:]) ^ zeros
				n = leadingDigits(word)
				fraction += n
			}
		} else if n == 0 {
			return 0, -1
		}
		// Shift the digits of an incomplete word up and fill with zeros on their left.
		mantissa = mantissa*smallPow10[n&15] + eightDigits(word<<(8*uint(8-n)))
		i += fraction
		exp = -fraction
		if digits == 0 && fraction > 19 {
			digits -= bits.TrailingZeros64(first) / 8 // leading zeros are not significant
		}
		digits += fraction
		if n == 8 {
			return 0, -1 // more may follow
		}
	}
	if digits > 19 {
		return 0, -1 // mantissa has overflowed
	}
	if b[i]|0x20 == 'e' {
		e, end := exponent(b, i+1)
		if end < 0 {
			return 0, -1
		}
		exp += e
		i = end
	}
	if mantissa == 0 {
		return math.Float32frombits(sign), i
	}
	u, ok := round32(mantissa, exp)
	if !ok {
		return 0, -1
	}
	return math.Float32frombits(u | sign), i
}

// zeros is eight digits '0'.
const zeros = 0x3030303030303030

// smallPow10 holds 10^n for the n that leadingDigits returns. It has 16 entries, so that a masked
// index needs no bounds check.
var smallPow10 = [16]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

// leadingDigits counts the bytes in 0..9 at the low end of word.
func leadingDigits(word uint64) int {
	// The sum sets the top bit of each byte above 9. A carry reaches only bytes after such a byte.
	const high = 0x8080808080808080
	return bits.TrailingZeros64((word+0x7676767676767676|word)&high) / 8
}

// eightDigits returns the number whose decimal digits are the bytes of word, each in 0..9, lowest
// byte first. It joins neighbours to pairs, pairs to fours, and fours to one number. From D.
// Lemire, "Quickly parsing eight digits", 2018.
func eightDigits(word uint64) uint64 {
	const (
		mask = 0x000000ff000000ff
		mul1 = 100 + 1000000<<32
		mul2 = 1 + 10000<<32
	)
	word = word*10 + word>>8
	return (word&mask*mul1 + word>>16&mask*mul2) >> 32
}

// exponent reads the exponent after the letter e. A negative end means that it is invalid or very
// large.
func exponent(b []byte, i int) (e, end int) {
	sign := 1
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		if b[i] == '-' {
			sign = -1
		}
		i++
	}
	start := i
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		e = e*10 + int(b[i]-'0')
		if e > 1000 {
			return 0, -1
		}
	}
	if i == start {
		return 0, -1
	}
	return e * sign, i
}

// round32 returns the bits of float32(float64(mantissa * 10^exp)), both conversions rounding to
// nearest even, for a mantissa above 0. It is the algorithm of D. Lemire, "Number Parsing at a
// Gigabyte per Second", Software: Practice and Experience 51 (2021), reduced to float32: only 24 of
// the 64 bits of the product are kept, so a table of 64-bit powers decides all but about one number
// in 2^28. It returns false for the undecided numbers, which lie next to the midpoint of two
// float32, and for results that are not normal numbers.
func round32(mantissa uint64, exp int) (uint32, bool) {
	if exp < minPow10 || exp > maxPow10 {
		return 0, false
	}
	shift := bits.LeadingZeros64(mantissa)
	product, _ := bits.Mul64(mantissa<<uint(shift), pow10[exp-minPow10])
	carry := int(product >> 63)
	product <<= uint(1 - carry)
	// The true product is at least this one and less than 4 more, in units of its last bit: the
	// power was rounded down (< 1), the low word dropped (< 1), and both errors may have been
	// doubled.
	const (
		half  = 1 << 39
		slack = 1<<10 + 4 // rounding to float64 in between moves it by 2^10 at most
	)
	if rest := product & (half<<1 - 1); rest-(half-slack) <= 2*slack {
		return 0, false
	}
	biased := 127 + 63 + log2Pow10(exp) + carry - shift
	if biased < 1 || biased > 253 { // 254 might still round up to infinity
		return 0, false
	}
	// The leading bit is added, not masked, so that a carry out of the mantissa reaches the
	// exponent.
	return uint32(biased-1)<<23 + uint32(product>>40) + uint32(product>>39&1), true
}

// log2Pow10 returns the binary exponent of 10^exp, rounded down, for |exp| < 300.
func log2Pow10(exp int) int { return exp * 217706 >> 16 }

// slowNumber reads any JSON number at b[i] with strconv. On error, next is the position of the
// error.
func slowNumber(b []byte, i int) (f float32, next int, err error) {
	end, err := scanNumber(b, i)
	if err != nil {
		return 0, end, err
	}
	wide, err := strconv.ParseFloat(string(b[i:end]), 64)
	if f = float32(wide); err != nil || math.IsInf(float64(f), 0) {
		return 0, i, fmt.Errorf("%w: %.40s", ErrNotFinite, b[i:end])
	}
	return f, end, nil
}

// scanNumber returns the end of the JSON number at b[i]. On error, end is the position of the
// error.
func scanNumber(b []byte, i int) (end int, err error) {
	start := i
	digits := func() bool {
		from := i
		for i < len(b) && b[i]-'0' <= 9 {
			i++
		}
		return i > from
	}
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
		if i < len(b) && b[i]-'0' <= 9 {
			return i, fmt.Errorf("a number with a leading zero")
		}
	case !digits():
		return notANumber(b, start, i)
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			return i, unexpected(b, i)
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '-' || b[i] == '+') {
			i++
		}
		if !digits() {
			return i, unexpected(b, i)
		}
	}
	return i, nil
}

// notANumber returns the error for b[start], where a number is expected, and its position. at is
// the index after the minus sign, if any.
func notANumber(b []byte, start, at int) (int, error) {
	for _, token := range []string{"NaN", "Infinity", "-Infinity"} {
		if end := start + len(token); end <= len(b) && string(b[start:end]) == token {
			return start, fmt.Errorf("%w: %s", ErrNotFinite, token)
		}
	}
	if at < len(b) && at == start {
		return at, fmt.Errorf("%s instead of a number", describe(b[at:]))
	}
	return at, unexpected(b, at)
}

// unexpected returns the error for b[i], where a digit is expected.
func unexpected(b []byte, i int) error {
	if i >= len(b) {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%s instead of a digit", quoted(b[i]))
}

// describe names the JSON value at the start of b, or its first byte if there is no value.
func describe(b []byte) string {
	starts := func(word string) bool { return bytes.HasPrefix(b, []byte(word)) }
	switch c := b[0]; {
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '"':
		return "a string"
	case starts("true") || starts("false"):
		return "a boolean"
	case starts("null"):
		return "null"
	case c == '-' || c-'0' <= 9:
		return "a number"
	}
	return quoted(b[0])
}

// quoted returns c for an error message; unprintable bytes are shown as numbers.
func quoted(c byte) string {
	if c < 0x20 || c >= 0x7f {
		return fmt.Sprintf("byte %#02x", c)
	}
	return "'" + string(c) + "'"
}

// skipSpace returns the index of the first byte from i on that is not JSON white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}
