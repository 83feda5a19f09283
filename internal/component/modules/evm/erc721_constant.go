package evm

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/weft-automation/weft/internal/component"
)

// erc721 is the JSON ABI of EIP-721 with the metadata extension and the errors of EIP-6093.
//
//go:embed erc721.json
var erc721 string

type erc721Constant struct{}

func (erc721Constant) Describe() component.Descriptor {
	return interfaceConstant("ERC721_ABI_CONSTANT", "ERC-721 ABI", "ERC-721 tokens (EIP-721, non-fungible)", "ownerOf, safeTransferFrom, tokenURI and so on, the events Transfer, Approval and ApprovalForAll, and the errors of EIP-6093")
}

func (erc721Constant) Run(context.Context, component.Call) (component.Result, error) {
	return component.Encode(map[string]json.RawMessage{"value": json.RawMessage(erc721)})
}
