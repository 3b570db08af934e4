package tokenizer_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/vecbolt/vecbolt/internal/tokenizer"
)

func Example() {
	vocab := strings.Fields("[PAD] [UNK] [CLS] [SEP] [MASK] write ##s a log .")
	tok, err := tokenizer.BERT(vocab, true)
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range tok.Encode("Writes a log.") {
		fmt.Println(id, vocab[id])
	}
	fmt.Println(tok.Count("Writes a log."), "tokens")
	// Output:
	// 2 [CLS]
	// 5 write
	// 6 ##s
	// 7 a
	// 8 log
	// 9 .
	// 3 [SEP]
	// 5 tokens
}
