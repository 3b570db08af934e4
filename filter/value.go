package filter

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Scalar returns v as one of the five types that conditions compare: nil, bool,
// int64, float64 or string. Other Go integers and float32 are widened. A
// [json.Number] becomes an int64 if it is an integer that fits, and otherwise
// the nearest float64. Scalar fails for NaN and infinities, for unsigned
// integers above the largest int64, for strings that are not UTF-8 and for
// every other type, named types included.
func Scalar(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, int64:
		return v, nil
	case string:
		if !utf8.ValidString(v) {
			return nil, fmt.Errorf("string %q is not valid UTF-8", v)
		}
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("number %v is not finite", v)
		}
		return v, nil
	case float32:
		return Scalar(float64(v))
	case int:
		return int64(v), nil
	case int8:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint:
		return Scalar(uint64(v))
	case uint64:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("number %d exceeds int64", v)
		}
		return int64(v), nil
	case json.Number:
		return number(string(v))
	case []any:
		return nil, errors.New("a list is no value to compare with")
	case map[string]any:
		return nil, errors.New("an object is no value to compare with")
	}
	return nil, fmt.Errorf("a value of type %T is not supported", v)
}

// number reads a JSON number: int64 when written as an integer that fits.
func number(s string) (any, error) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if errors.Is(err, strconv.ErrRange) {
		return nil, fmt.Errorf("number %s exceeds float64", s)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not a number", s)
	}
	return Scalar(f)
}

// Compare orders two values of the same kind: -1, 0 or +1 and true. Numbers are one kind and
// compare by value, exactly, whether int64 or float64. Strings compare bytewise, false is less than
// true, null equals null. Values of different kinds, lists, maps, NaN and other types are not
// comparable: the result is 0 and false.
//
// Compare also orders bools, so that columns can be sorted; the operators $gt,
// $gte, $lt and $lte apply to numbers and strings only.
func Compare(a, b any) (int, bool) {
	switch a := a.(type) {
	case nil:
		return 0, b == nil
	case bool:
		if b, ok := b.(bool); ok {
			return cmp.Compare(truth(a), truth(b)), true
		}
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b), true
		}
	case int64:
		switch b := b.(type) {
		case int64:
			return cmp.Compare(a, b), true
		case float64:
			return compareIntFloat(a, b), !math.IsNaN(b)
		}
	case float64:
		if math.IsNaN(a) {
			return 0, false
		}
		switch b := b.(type) {
		case int64:
			return -compareIntFloat(b, a), true
		case float64:
			if math.IsNaN(b) {
				return 0, false
			}
			return cmp.Compare(a, b), true
		}
	}
	return 0, false
}

func equal(a, b any) bool {
	n, ok := Compare(a, b)
	return ok && n == 0
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compareIntFloat compares without rounding i to a float64, which would make
// neighbours above 2^53 equal. The result for a NaN is 0.
func compareIntFloat(i int64, f float64) int {
	switch {
	case math.IsNaN(f):
		return 0
	case f >= 1<<63:
		return -1
	case f < -1<<63:
		return +1
	}
	whole := math.Trunc(f) // within int64 by the cases above
	if c := cmp.Compare(i, int64(whole)); c != 0 {
		return c
	}
	return cmp.Compare(whole, f)
}

// hasOrder reports whether v can be an operand of $gt, $gte, $lt and $lte.
func hasOrder(v any) bool {
	switch v.(type) {
	case int64, float64, string:
		return true
	}
	return false
}
