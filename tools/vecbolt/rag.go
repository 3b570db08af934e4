package main

import (
	"cmp"
	"log/slog"
	"strconv"

	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/static/english"
	"github.com/vecbolt/vecbolt/rag/knowledge"
)

// ragCmd works with knowledge bases: documents that are read, split, embedded and indexed.
type ragCmd struct {
	Workspace string `default:".vecbolt" placeholder:"DIR" env:"VECBOLT_WORKSPACE" help:"Directory of the bases (${default}); it contains the configurations BASE/config.yaml."`

	Learn   ragLearnCmd   `cmd:"" help:"Add files and directories to a base, or update them."`
	Query   ragQueryCmd   `cmd:"" help:"Find the chunks that answer a question, and build a context from them."`
	Ask     ragAskCmd     `cmd:"" help:"Answer a question from a base with a chat model; without a model, show the context."`
	Chat    ragChatCmd    `cmd:"" help:"Answer the questions of a conversation, one per line of the standard input."`
	Status  ragStatusCmd  `cmd:"" help:"Describe one base or all."`
	Eval    ragEvalCmd    `cmd:"" help:"Measure how well a base finds what judged questions need."`
	Config  ragConfigCmd  `cmd:"" help:"Show or change the configuration of a base."`
	MCP     ragMCPCmd     `cmd:"" name:"mcp" help:"Let agents ask all bases of the workspace, with the Model Context Protocol."`
	Reembed ragReembedCmd `cmd:"" help:"Embed a base again with another model, compare both, and switch."`
	Clean   ragCleanCmd   `cmd:"" help:"Remove a base and its configuration."`
}

// providers returns the providers of embeddings that the command knows.
func providers() *embed.Registry {
	return embed.NewRegistry(append(embed.Builtin(), english.Provider())...)
}

// engine opens the workspace. Warnings about files are reported like messages.
func (c *ragCmd) engine(t *tool) (*knowledge.Engine, error) {
	return openBases(c.Workspace, knowledge.Options{Logger: t.warnings()})
}

// warnings returns a logger that reports warnings like messages, without the time.
func (t *tool) warnings() *slog.Logger {
	plain := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(t.report, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: plain}))
}

// openBases opens a workspace with the providers of the command, and its model for new bases.
func openBases(workspace string, o knowledge.Options) (*knowledge.Engine, error) {
	model := english.Config()
	o.Providers, o.Default = providers(), &model
	return knowledge.New(workspace, &o)
}

// ragEmbedder has the flags for the embedding of a base.
type ragEmbedder struct {
	Provider   string            `placeholder:"NAME" help:"Provider of embeddings: static (the model in this command, the default of a new base), hash, openai, ollama, …"`
	Model      string            `placeholder:"NAME" help:"Model of embeddings. The name of a stored model needs no provider."`
	Dimensions int               `placeholder:"N" help:"Components of a vector; default the dimension of the model."`
	Set        map[string]string `placeholder:"KEY=VALUE" help:"Settings of the provider, such as api_base=… or host=…."`
}

// given reports whether any of the flags is set.
func (c *ragEmbedder) given() bool {
	return c.Provider != "" || c.Model != "" || c.Dimensions != 0 || len(c.Set) > 0
}

// lookUp names the provider of a stored model that is given without one.
func (c *ragEmbedder) lookUp() {
	if c.Provider == "" && c.Model != "" {
		c.Provider = storedProvider(c.Model)
	}
}

// apply copies the flags to a configuration.
func (c *ragEmbedder) apply(cfg *knowledge.Config) {
	c.lookUp()
	if c.Provider != "" && c.Provider != cfg.Provider {
		cfg.Provider, cfg.Model, cfg.Embedding = c.Provider, "", knowledge.Embedding{Normalize: true}
	}
	cfg.Model = cmp.Or(c.Model, cfg.Model)
	cfg.Embedding.Dimensions = cmp.Or(c.Dimensions, cfg.Embedding.Dimensions)
	for k, v := range c.Set {
		if cfg.Embedding.ProviderConfig == nil {
			cfg.Embedding.ProviderConfig = map[string]any{}
		}
		cfg.Embedding.ProviderConfig[k] = setting(cfg.Provider, k, v)
	}
}

// ragKeys is the flag for any key of the configuration.
type ragKeys struct {
	Config map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Set a key of config.yaml, such as top_k=3; may be repeated. docs/guide.md lists them, and rag config --all."`
}

func (c *ragKeys) keys() map[string]any {
	set := map[string]any{}
	for k, v := range c.Config {
		set[k] = v
	}
	return set
}

// setting parses a value by the schema of the provider.
func setting(provider, name, value string) any {
	p, err := providers().Lookup(provider)
	if err != nil || p.Settings == nil || p.Settings.Properties[name] == nil {
		return value
	}
	switch p.Settings.Properties[name].Type {
	case "boolean":
		if b, err := strconv.ParseBool(value); err == nil {
			return b
		}
	case "integer", "number":
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			return n
		}
	}
	return value
}
