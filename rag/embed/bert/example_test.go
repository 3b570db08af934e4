package bert_test

import (
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/rag/embed/bert"
)

func ExampleOpen() {
	model, err := bert.Open("all-MiniLM-L6-v2") // a directory of Hugging Face, or a GGUF file
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(model.Embed("a sentence")) == model.Dim())
}

func ExampleOpenCross() {
	model, err := bert.OpenCross("ms-marco-MiniLM-L-6-v2")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(model.Score("When is the log written?", "The log is written before memory."))
}
