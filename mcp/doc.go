// Package mcp lets agents use a database over the Model Context Protocol
// (https://modelcontextprotocol.io). NewServer creates a server with tools that search, read and
// describe collections and, with Options.AllowWrite, change documents. Handler serves it over
// streamable HTTP. The command "vecbolt mcp" does both.
//
//	server := mcp.NewServer(vdb, nil)
//	err := server.Run(ctx, mcp.Stdio(os.Stdin, os.Stdout))
//
// Every answer is bounded, whatever a client sends: the schemas of the tools state limits for the
// number of documents and the bytes of texts and metadata. Vectors are never sent. A tool that
// fails returns a result with isError, so that the model can read the reason. docs/mcp.md describes
// the tools.
package mcp
