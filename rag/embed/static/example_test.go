package static_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/vecbolt/vecbolt/rag/embed/static"
)

func ExampleReadWords() {
	words, err := static.ReadWords(strings.NewReader("cat 1 0\ndog 0 1\n"), &static.WordsOptions{Mean: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(words.Len(), words.Dim(), words.Vector("dog"))
	fmt.Printf("%.3f\n", words.Embed("Cat and dog"))
	// Output:
	// 2 2 [0 1]
	// [0.707 0.707]
}
