package tiktoken_test

import (
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/rag/split/tiktoken"
)

func ExampleForModel() {
	count, err := tiktoken.ForModel("text-embedding-3-small")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(count("2 + 2 = 4"), "tokens")
	// Output: 7 tokens
}
