// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// What tests need of the Ethereum Name Service: a registry (ENSIP-1) in which
/// anybody may set resolvers, and one resolver of each kind.
contract Registry {
    mapping(bytes32 => address) public resolver;

    function set(bytes32 node, address to) external {
        resolver[node] = to;
    }
}

/// A resolver that knows names one by one.
contract PlainResolver {
    mapping(bytes32 => address) public addr;

    function set(bytes32 node, address to) external {
        addr[node] = to;
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x3b3b57de;
    }
}

/// A resolver from before ERC-165: it reverts when it is asked what it can do.
contract OldResolver {
    function addr(bytes32 node) external pure returns (address) {
        return address(uint160(uint256(node)));
    }
}

/// A wildcard resolver (ENSIP-10): each name's address is the end of the hash of
/// the name as it is on the wire.
contract WildcardResolver {
    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x9061b923;
    }

    function resolve(bytes calldata name, bytes calldata data) external pure returns (bytes memory) {
        require(bytes4(data) == 0x3b3b57de && data.length == 36, "only addr(bytes32)");
        return abi.encode(address(uint160(uint256(keccak256(name)))));
    }
}

/// A wildcard resolver that sends callers to a gateway (EIP-3668).
contract OffchainResolver {
    error OffchainLookup(address sender, string[] urls, bytes callData, bytes4 callbackFunction, bytes extraData);

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x9061b923;
    }

    function resolve(bytes calldata, bytes calldata data) external view returns (bytes memory) {
        revert OffchainLookup(address(this), new string[](0), data, 0x00000000, data);
    }
}
