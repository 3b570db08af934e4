// Package simd holds the numeric kernels: dot products and squared Euclidean distances of float32
// vectors, the same of vectors coded with one byte, half a byte or one bit per component, and range
// comparisons of integer codes. They are pure functions of slices. They never read or write outside
// of them, keep nothing, allocate nothing and may be called concurrently. Slices whose lengths do
// not fit are a programming error, which panics with a message that names the function and the
// lengths.
//
// There are two kinds of sums. Dot, L2, DotRows and L2Rows add in float32, in the order that is
// fastest on the CPU: their last bits depend on it, within ErrorBound. Dot64 and L264 are
// canonical: they add in float64 in one fixed order and have the same bits on every CPU, with and
// without assembly. A search finds candidates with the float32 sums, keeps all that ErrorBound
// cannot exclude, and scores these with the canonical sums.
//
// DotCodes multiplies one-byte codes by a query of 16-bit integers, DotNibbles codes of half a byte
// by one of bytes, and CodesAbove drops the rows whose result is too low, for package
// segment/codes. GatherL2 compares one vector of codes with others at random places, and Offer
// keeps the nearest of them, for package segment/graph. Estimate and Below estimate the distances
// of a query from blocks of 32 vectors by their signs; a Rotation makes such signs say about
// equally much. Centre and Encode code a vector, Sketch and PackSigns its signs. RangeU8, RangeU16
// and RangeU32 are for package segment/columns. All are exact in the sense of Dot64: the same
// everywhere.
//
// CodeTile and RowTile compare many queries at once with blocks of codes and of float32 vectors.
// They return one bit for each row that may reach the cut of a query, and no products.
//
// Matrix and CodeMatrix multiply rows with a matrix of weights, of float32 and of one byte, and
// Softmax, GELU and AddNorm are the rest of a layer of a transformer, for package rag/embed/bert.
// The products of CodeMatrix are the same everywhere; the others are as exact as float32 sums are,
// and a row gets the same bits whatever rows stand beside it.
//
// # Stability
//
// Dot, L2, Dot64, L264, Cosine64, DotRows, L2Rows, ErrorBound, Finite, Make and Name are for
// everybody, and stay from one release to the next. All else serves the packages of this repository
// and may change in any release.
//
// # Implementations
//
// generic.go is the definition, in portable Go. It runs on every architecture except amd64, and
// everywhere with the build tag purego. On amd64 the program chooses at its start, by the features
// of the CPU and the operating system: assembly for AVX-512 (F, BW, DQ, VL), assembly for AVX2 with
// FMA, or the portable code. GODEBUG=cpu.avx512f=off or cpu.avx2=off in the environment withholds a
// feature. DotCodes and CodeMatrix use the AVX2 kernel if AVX-512 lacks VNNI. The functions that
// code a vector, and DotSquare64, have kernels for AVX2 alone. The assembly is generated
// by the module in _asm. Assembly cannot be preempted; the row kernels return to Go after every
// mebibyte, the others run for about 25 microseconds per mebibyte of arguments.
//
// With AVX2, Dot uses github.com/viterin/vek, which is at least as fast as our kernel; vek has no
// squared distance and no kernel for many rows.
//
// # Figures
//
// One core of an AMD EPYC (Zen 5), go1.26, the best rate of BenchmarkRows for
// the dot product, in GB/s of rows. The yardstick, which reads one float of each
// cache line and does nothing else, reaches 42 GB/s from memory.
//
//	                        from memory                 64 KiB, in cache
//	dimension          100   384   768  1536        100   384   768  1536
//	DotRows, avx512     40    43    42    42        137   217   216   227
//	DotRows, avx2       41    40    39    39        106   122   125   125
//	DotRows, generic    15    16    16    16         15    16    17    17
//	vek32.Dot           34    38    40    41         62   104   114   122
//
// And BenchmarkVectors: one pair of vectors in cache, in nanoseconds.
//
//	dimension          100   384   768  1536
//	Dot, avx512        8.1    11    17    29
//	DotRows, avx2      9.8    18    30    54        of a single row
//	vek32.Dot          7.3    15    27    51
//	Dot, generic        26    94   190   385
//	Dot64, avx512       11    37    76   174
//	Dot64, avx2         13    47    94   202
//	Dot64, generic      51   200   381   755
//
// And BenchmarkCodes: DotCodes, in GB/s of codes, from memory, from 12 MiB in the last-level cache,
// and from 64 KiB. In rows per second it is 3.7 to 4.8 times as fast as DotRows from memory: four
// times the ratio of the rates.
//
//	                  from memory           12 MiB            64 KiB
//	dimension       100   384   768    100   384   768    100   384   768
//	avx512, VNNI     39    39    38     54    54    56    121   124   132
//	avx2             39    37    38     50    50    52     56    63    69
//	generic         3.8   4.2   4.2    3.8   4.1   4.1    3.9   4.2   4.1
//
// And BenchmarkOffer, in nanoseconds per offered row: 1,200 rows in random order, 20 at a time, to
// a pool that keeps this many:
//
//	rows kept       24    64   128   192   256
//	avx512         1.2   2.5   5.5   8.0    26     registers hold 192
//	generic        1.8   7.7    15    22    26
//
// On a processor without AVX-512, the best of five runs (2026-11-29):
//
//	avx2           2.2   4.1   8.3    16    29     up to 32 are kept in registers, up to 192 moved in memory
//	generic        2.8   9.6    19    23    30
package simd
