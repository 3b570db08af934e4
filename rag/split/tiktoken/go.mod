module github.com/vecbolt/vecbolt/rag/split/tiktoken

go 1.26.0

require (
	github.com/tiktoken-go/tokenizer v0.10.0
	github.com/vecbolt/vecbolt/rag v0.0.0
)

require (
	github.com/chewxy/math32 v1.10.1 // indirect
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/dlclark/regexp2/v2 v2.5.1 // indirect
	github.com/vecbolt/vecbolt v0.0.0 // indirect
	github.com/viterin/partial v1.1.0 // indirect
	github.com/viterin/vek v0.4.3 // indirect
	github.com/yuin/goldmark v1.8.7 // indirect
	golang.org/x/exp v0.0.0-20230817173708-d852ddb80c63 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace (
	github.com/vecbolt/vecbolt => ../../..
	github.com/vecbolt/vecbolt/rag => ../../../rag
)
