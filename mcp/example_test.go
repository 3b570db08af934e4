package mcp_test

import (
	"context"
	"fmt"
	"log"
	"os"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/mcp"
)

func Example() {
	dir, err := os.MkdirTemp("", "mcp-")
	check(err)
	defer os.RemoveAll(dir)
	vdb, err := db.Open(dir, nil)
	check(err)
	defer vdb.Close()

	// A program for agents runs the server on Stdio; here a client is in the process.
	ctx := context.Background()
	here, there := sdk.NewInMemoryTransports()
	_, err = mcp.NewServer(vdb, nil).Connect(ctx, there, nil)
	check(err)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "example"}, nil).Connect(ctx, here, nil)
	check(err)
	defer session.Close()

	list, err := session.ListTools(ctx, nil)
	check(err)
	for _, tool := range list.Tools {
		fmt.Println(tool.Name)
	}
	// Output:
	// describe_collection
	// get_documents
	// hybrid_search
	// list_collections
	// list_documents
	// search
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
