package chat_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/vecbolt/vecbolt/rag/chat"
)

func Example() {
	// A server with OpenAI's protocol; a program names a real one.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":"Before memory [1]."}}]}`)
	}))
	defer server.Close()

	model := chat.Client{Base: server.URL, Model: "some-model"}
	answer, err := model.Answer(context.Background(), "When is the log written?", "[1] The log is written before memory.", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Text)
	// Output: Before memory [1].
}
