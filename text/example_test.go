package text_test

import (
	"fmt"

	"github.com/vecbolt/vecbolt/text"
)

func Example() {
	english, err := text.New("english")
	if err != nil {
		panic(err)
	}
	scanner := english.Scanner()
	const doc = "The log is written first. parseHTTPHeader reads headers."
	tokens, _ := scanner.Tokens(nil, doc)
	for _, t := range tokens {
		if !t.Stop {
			fmt.Println(t.Position, t.Term, doc[t.Start:t.End])
		}
	}
	// Output:
	// 1 log log
	// 3 written written
	// 4 first first
	// 5 parsehttphead parseHTTPHeader
	// 5 pars parse
	// 6 http HTTP
	// 7 header Header
	// 8 read reads
	// 9 header headers
}

func ExampleScanner_Highlight() {
	english, err := text.New("english")
	if err != nil {
		panic(err)
	}
	query := english.Parse(`"sync the log" +disk`)
	const doc = "Writers wait together. One of them syncs the log to the disk for all. Then they return."
	snippet := english.Scanner().Highlight(&query, doc, 40, nil)
	fmt.Println(snippet.Text)
	for _, m := range snippet.Marks {
		fmt.Println(snippet.Text[m.Start:m.End])
	}
	// Output:
	// them syncs the log to the disk for all.
	// syncs
	// the
	// log
	// disk
}

func ExamplePlain() {
	fmt.Println(text.Plain(`what are “durable” writes -really?`))
	// Output: what are durable writes really?
}
