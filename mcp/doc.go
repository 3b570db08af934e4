// Package mcp lets agents work with a database by the Model Context Protocol
// (https://modelcontextprotocol.io). NewServer makes a server with tools to
// search, read and describe collections and, if Options.AllowWrite says so, to
// change documents; Handler serves it over streamable HTTP. "vecbolt mcp" does
// both.
//
//	server := mcp.NewServer(vdb, nil)
//	err := server.Run(ctx, &sdk.StdioTransport{})
//
// Whatever a client sends, the answer is bounded: numbers of documents, bytes
// of texts and of metadata have limits, which the schemas of the tools state.
// Vectors are never sent. What goes wrong in a tool is a result with isError,
// so that the model reads why. docs/mcp.md describes the tools.
package mcp
