package evm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// The supported transaction types.
const (
	typeEIP1559 = "eip1559"
	typeLegacy  = "legacy"
)

// outgoing is a transaction to sign: an EIP-1559 transaction, or a legacy one with replay
// protection (EIP-155). Without the chain ID in the signed data, anyone could replay the
// transaction on another chain.
type outgoing struct {
	legacy               bool
	chainID              *big.Int
	nonce                uint64
	to                   *common.Address // nil: a contract is created
	value                *big.Int
	data                 []byte
	gasLimit             uint64
	gasPrice             *big.Int // legacy transactions only
	maxPriorityFeePerGas *big.Int
	maxFeePerGas         *big.Int
	accessList           []accessTuple
	from                 *common.Address // the expected signer; nil: any
}

// accessTuple is an entry of an access list (EIP-2930).
type accessTuple struct {
	Address     common.Address
	StorageKeys []common.Hash
}

// dynamicFeeType is the EIP-2718 type of EIP-1559 transactions.
const dynamicFeeType = 2

// unsigned returns the serialized form whose hash is signed.
func (t *outgoing) unsigned() ([]byte, error) {
	if t.legacy {
		return t.encoded(t.chainID, uint(0), uint(0))
	}
	return t.encoded()
}

// signed returns the serialized form that nodes accept.
func (t *outgoing) signed(signature signature65) ([]byte, error) {
	if !t.legacy {
		return t.encoded(uint(signature.yParity()), signature.r(), signature.s())
	}
	v := new(big.Int).Lsh(t.chainID, 1)
	v.Add(v, big.NewInt(35+int64(signature.yParity())))
	return t.encoded(v, signature.r(), signature.s())
}

func (t *outgoing) encoded(signature ...any) ([]byte, error) {
	to := []byte{}
	if t.to != nil {
		to = t.to[:]
	}
	if t.legacy {
		return rlp.EncodeToBytes(append([]any{t.nonce, t.gasPrice, t.gasLimit, to, t.value, t.data}, signature...))
	}
	fields := []any{t.chainID, t.nonce, t.maxPriorityFeePerGas, t.maxFeePerGas, t.gasLimit, to, t.value, t.data, t.accessList}
	list, err := rlp.EncodeToBytes(append(fields, signature...))
	return append([]byte{dynamicFeeType}, list...), err
}

// hash returns the hash to sign.
func (t *outgoing) hash() (common.Hash, error) {
	data, err := t.unsigned()
	return crypto.Keccak256Hash(data), err
}

// check returns an error if no chain would accept the transaction.
func (t *outgoing) check() error {
	numbers := map[string]*big.Int{"chainId": t.chainID, "value": t.value, "gasPrice": t.gasPrice, "maxFeePerGas": t.maxFeePerGas, "maxPriorityFeePerGas": t.maxPriorityFeePerGas}
	for name, number := range numbers {
		if number != nil && number.BitLen() > 256 {
			return atPath(mismatchf("expected a number of at most 256 bits"), "."+name)
		}
	}
	switch {
	case t.chainID.Sign() == 0:
		return atPath(mismatchf("expected a chain ID of at least 1: without it the transaction would be valid on every chain (EIP-155)"), ".chainId")
	case t.nonce == 1<<64-1:
		return atPath(mismatchf("expected at most 2^64-2 (EIP-2681)"), ".nonce")
	case !t.legacy && t.maxPriorityFeePerGas.Cmp(t.maxFeePerGas) > 0:
		return atPath(mismatchf("expected at most maxFeePerGas, which is %s, got %s", t.maxFeePerGas, t.maxPriorityFeePerGas), ".maxPriorityFeePerGas")
	case t.to == nil && len(t.data) == 0:
		return atPath(mismatchf("is missing; it can be missing only if data has the code of a contract to create"), ".to")
	}
	return nil
}

// parseOutgoing parses the input `transaction`: an object, or a serialized unsigned transaction in
// hexadecimal digits.
func parseOutgoing(raw json.RawMessage) (*outgoing, error) {
	value, err := strictjson.Decode(raw)
	if err != nil {
		return nil, errors.New("expected a transaction")
	}
	var t *outgoing
	switch value := value.(type) {
	case string:
		t, err = parseSerialized(value)
	case map[string]any:
		t, err = parseMembers(value)
	default:
		return nil, mismatchf("expected an object or an unsigned transaction as hexadecimal digits, got %s", describe(value))
	}
	if err == nil {
		err = t.check()
	}
	return t, err
}

// The RLP fields of unsigned transactions.
type (
	serializedLegacy struct {
		Nonce    uint64
		GasPrice *big.Int
		GasLimit uint64
		To       *common.Address `rlp:"nil"`
		Value    *big.Int
		Data     []byte
		ChainID  *big.Int
		R, S     uint64 // both are 0
	}
	serializedDynamicFee struct {
		ChainID                            *big.Int
		Nonce                              uint64
		MaxPriorityFeePerGas, MaxFeePerGas *big.Int
		GasLimit                           uint64
		To                                 *common.Address `rlp:"nil"`
		Value                              *big.Int
		Data                               []byte
		AccessList                         []accessTuple
	}
)

func parseSerialized(text string) (*outgoing, error) {
	data, err := parseBytes(text)
	if err != nil || len(data) == 0 {
		return nil, mismatchf("expected an unsigned transaction, 0x and pairs of hexadecimal digits, got %s", describe(text))
	}
	var t *outgoing
	switch {
	case data[0] >= 0xc0: // an RLP list
		var s serializedLegacy
		if err := rlp.DecodeBytes(data, &s); err != nil || s.R != 0 || s.S != 0 {
			return nil, mismatchf("expected an unsigned legacy transaction (EIP-155: nonce, gasPrice, gasLimit, to, value, data, chainId, 0, 0), got another list")
		}
		t = &outgoing{legacy: true, chainID: s.ChainID, nonce: s.Nonce, gasPrice: s.GasPrice, gasLimit: s.GasLimit, to: s.To, value: s.Value, data: s.Data}
	case data[0] == dynamicFeeType:
		var s serializedDynamicFee
		if err := rlp.DecodeBytes(data[1:], &s); err != nil {
			return nil, mismatchf("expected an unsigned EIP-1559 transaction (0x02 and 9 fields), got another list")
		}
		t = &outgoing{
			chainID: s.ChainID, nonce: s.Nonce, maxPriorityFeePerGas: s.MaxPriorityFeePerGas, maxFeePerGas: s.MaxFeePerGas,
			gasLimit: s.GasLimit, to: s.To, value: s.Value, data: s.Data, accessList: s.AccessList,
		}
	default:
		return nil, mismatchf("expected an unsigned transaction, legacy or of type 2 (EIP-1559), got type %d", data[0])
	}
	if again, err := t.unsigned(); err != nil || !bytes.Equal(again, data) {
		return nil, errors.New("the transaction is not in the canonical RLP form that chains require")
	}
	return t, nil
}

// members reads the fields of an object and keeps the first error.
type members struct {
	of   map[string]any
	err  error
	seen int
}

func (m *members) get(name string) (any, bool) {
	value, ok := m.of[name]
	if ok {
		m.seen++
	}
	return value, ok && value != nil
}

func (m *members) fail(name string, err error) {
	if err != nil && m.err == nil {
		m.err = atPath(err, "."+name)
	}
}

// number reads an integer. If the field is missing, it returns the default, or records an error if
// the default is nil.
func (m *members) number(name string, bits int, byDefault *big.Int) *big.Int {
	value, ok := m.get(name)
	if !ok {
		if byDefault == nil {
			m.fail(name, errors.New("is missing: expected a decimal string"))
			byDefault = new(big.Int)
		}
		return byDefault
	}
	if given, ok := value.(json.Number); ok {
		if text, ok := exactDigits(given); ok {
			value = text
		}
	}
	number, err := decimalOf(value, bits)
	if err != nil {
		m.fail(name, err)
		return new(big.Int)
	}
	return number
}

func (m *members) address(name string) *common.Address {
	value, ok := m.get(name)
	if !ok {
		return nil
	}
	text, _ := value.(string)
	address, err := parseAddress(text)
	m.fail(name, err)
	return &address
}

func (m *members) bytes(name string) []byte {
	value, ok := m.get(name)
	if !ok {
		return nil
	}
	text, _ := value.(string)
	data, err := parseBytes(text)
	m.fail(name, err)
	return data
}

func parseMembers(of map[string]any) (*outgoing, error) {
	m := &members{of: of}
	kind, named := m.get("type")
	_, priced := of["gasPrice"]
	if !named && priced {
		kind = typeLegacy
	} else if !named {
		kind = typeEIP1559
	}
	if kind != typeLegacy && kind != typeEIP1559 {
		return nil, atPath(mismatchf("expected eip1559 or legacy, got %s", describe(kind)), ".type")
	}
	t := &outgoing{
		legacy: kind == typeLegacy, chainID: m.number("chainId", 256, nil), nonce: m.number("nonce", 64, nil).Uint64(),
		to: m.address("to"), value: m.number("value", 256, new(big.Int)), data: m.bytes("data"),
		gasLimit: m.number("gasLimit", 64, nil).Uint64(), from: m.address("from"),
	}
	if t.legacy {
		t.gasPrice = m.number("gasPrice", 256, nil)
	} else {
		t.maxFeePerGas, t.maxPriorityFeePerGas = m.number("maxFeePerGas", 256, nil), m.number("maxPriorityFeePerGas", 256, nil)
		list, _ := m.get("accessList")
		var err error
		t.accessList, err = parseAccessList(list)
		m.fail("accessList", err)
	}
	if m.err == nil && m.seen < len(of) {
		return nil, unknownMember(of, t.legacy)
	}
	return t, m.err
}

// unknownMember returns the error for an unknown field. If the field were ignored, the signed
// transaction would differ from the caller's.
func unknownMember(of map[string]any, legacy bool) error {
	known := map[string]bool{"type": true, "chainId": true, "nonce": true, "to": true, "value": true, "data": true, "gasLimit": true, "from": true}
	kind, fees := typeEIP1559, []string{"maxFeePerGas", "maxPriorityFeePerGas", "accessList"}
	if legacy {
		kind, fees = typeLegacy, []string{"gasPrice"}
	}
	for _, name := range fees {
		known[name] = true
	}
	for name := range of {
		if !known[name] {
			return fmt.Errorf("has the unknown field %s; a transaction of type %s has no such field", describe(name), kind)
		}
	}
	return nil
}

func parseAccessList(value any) ([]accessTuple, error) {
	if value == nil {
		return nil, nil
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var list []struct {
		Address     string
		StorageKeys []string
	}
	if json.Unmarshal(encoded, &list) != nil {
		return nil, mismatchf("expected an array of objects with address and storageKeys")
	}
	tuples := make([]accessTuple, len(list))
	for i, entry := range list {
		if tuples[i].Address, err = parseAddress(entry.Address); err != nil {
			return nil, atPath(err, fmt.Sprintf("[%d].address", i))
		}
		for k, text := range entry.StorageKeys {
			key, err := parseHash(text)
			if err != nil {
				return nil, atPath(err, fmt.Sprintf("[%d].storageKeys[%d]", i, k))
			}
			tuples[i].StorageKeys = append(tuples[i].StorageKeys, key)
		}
	}
	return tuples, nil
}
