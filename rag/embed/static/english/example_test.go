package english_test

import (
	"context"
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/rag/embed/static/english"
)

func Example() {
	vecs, err := english.New().EmbedBatch(context.Background(), []string{"a sick dog", "an ill puppy", "interest rates"})
	if err != nil {
		log.Fatal(err)
	}
	dot := func(a, b []float32) (sum float32) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	fmt.Println(len(vecs[0]), dot(vecs[0], vecs[1]) > 0.3, dot(vecs[0], vecs[2]) > 0.3)
	// Output: 256 true false
}
