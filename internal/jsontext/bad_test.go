package jsontext

import "testing"

func TestBad(t *testing.T) {
	for text, want := range map[string]int{
		``: -1, `"a"`: -1, `"é😀"`: -1, "\"\ufffd\"": -1, `"\ufffd"`: -1, `"\u00e9\n\\"`: -1,
		`"\ud83d\ude00"`: -1, `"\uD83D\uDE00"`: -1, `"\\ud800"`: -1, `"\`: -1, `"\u12`: -1, `"\uzzzz"`: -1,
		"\"\xff\"": 1, "\"\xed\xa0\x80\"": 1, "\"a\\n\xff\"": 4,
		`"\ud800"`: 1, `"\udfff"`: 1, `"ab\ud83dx"`: 3, `"\ud83d\n"`: 1, `"\ud83d\ud83d\ude00"`: 1, `"\ude00\ud83d"`: 1,
		`"\ud83d\u0041"`: 1, `"\\\ud800"`: 3, `"\ud83d\ude00\ud800"`: 13, `"\ud800`: 1, `"\ud800\u`: 1,
	} {
		if got := Bad([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
