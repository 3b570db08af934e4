package csvhead

import "testing"

func TestSeparator(t *testing.T) {
	for _, tt := range []struct {
		head   string
		tabs   bool
		want   rune
		stated bool
	}{
		{"", false, ',', false},
		{"a,b;c\n1;2;3", false, ',', false},
		{"a;b\n1,5;2,5", false, ';', false},
		{"a;b", true, '\t', false},
		{"sep=;\r\na;b", false, ';', true},
		{"SEP=|\na|b", false, '|', true},
		{"sep=\t\na\tb", false, '\t', true},
		{"sep=,", true, ',', true},
		{"sep=é\n", false, 'é', true},
		{"sep=\n", false, ',', false},
		{"sep=\"\n", false, ',', false},
		{"sep=;;\n", false, ';', false},
		{"sep=\xff\n", false, ',', false},
		{"separator,b\n", false, ',', false},
	} {
		if got, stated := Separator(tt.head, tt.tabs); got != tt.want || stated != tt.stated {
			t.Errorf("%q: %q, %v", tt.head, got, stated)
		}
	}
}
