package errtext

import "testing"

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"db: search: filter: at \"a\": bad":         "search: at \"a\": bad",
		"knowledge: learn \"b\": embed: ollama: no": "learn \"b\": ollama: no",
		"a\nweaviate: b":                            "a\nb",
		"mydb: x, say db: y":                        "mydb: x, say db: y",
		"":                                          "",
		"db: ":                                      "",
		"x: \ndb: y\n":                              "x: \ny\n",
	} {
		if got := Plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
