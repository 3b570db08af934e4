module github.com/vecbolt/vecbolt/tools/distil

go 1.26.0

require (
	github.com/vecbolt/vecbolt v0.0.0
	github.com/vecbolt/vecbolt/rag v0.0.0
	golang.org/x/net v0.62.0
)

require (
	github.com/chewxy/math32 v1.10.1 // indirect
	github.com/stretchr/testify v1.11.1 // indirect
	github.com/viterin/partial v1.1.0 // indirect
	github.com/viterin/vek v0.4.3 // indirect
	golang.org/x/exp v0.0.0-20230817173708-d852ddb80c63 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace (
	github.com/vecbolt/vecbolt => ../..
	github.com/vecbolt/vecbolt/rag => ../../rag
)
