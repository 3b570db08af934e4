package weights_test

import (
	"encoding/binary"
	"fmt"
	"log"
	"math"

	"github.com/vecbolt/vecbolt/internal/weights"
)

func ExampleParse() {
	const header = `{"embedding":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}`
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	file = append(file, header...)
	for _, x := range []float32{0.5, -1} {
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(x))
	}

	model, err := weights.Parse(file) // the bytes of model.safetensors, or of a GGUF file
	if err != nil {
		log.Fatal(err)
	}
	tensor := model.Tensors["embedding"]
	numbers, err := tensor.Float32()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tensor.Type, tensor.Shape, numbers)
	// Output: F32 [1 2] [0.5 -1]
}
